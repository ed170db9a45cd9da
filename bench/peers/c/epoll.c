/* SPDX-License-Identifier: MIT */
/*
 * The servers for echo and, with HTTP, for http as a state machine over epoll. In the
 * steady state it makes one recv() and one send() for each message, which are a little
 * faster than read() and write(), and one epoll_wait() for all ready connections.
 *
 * Connections are registered once, edge triggered, for both directions. A short read has
 * emptied the socket: the next byte is a new event. Two cases may bring no event, and ask
 * for one: a read that filled the buffer, or that saw the peer's end behind data; and a
 * read that was put off until something was written.
 */
#include <stdbool.h>
#include <sys/epoll.h>

#ifdef HTTP
#include "http.h"
#else
#include "server.h"
#endif

struct connection {                     /* its index is its descriptor */
	char *rest;                     /* to write before more is read; or NULL */
	size_t length, sent;            /* bytes of rest */
	bool ends;                      /* to close after rest is written */
#ifdef HTTP
	struct http http;
#endif
};

static struct connection *connections;
static char buffer[BUFFER_SIZE];
static int epoll, listener;
static bool full;                       /* no descriptor for another connection */

static void watch(int operation, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll, operation, fd, &event))
		fail_errno("epoll_ctl");
}

static void watch_connection(int operation, int fd)
{
	watch(operation, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static void close_connection(int fd)
{
	free(connections[fd].rest);
	connections[fd].rest = NULL;
	close(fd);
	if (full)
		watch(EPOLL_CTL_MOD, listener, EPOLLIN);
	full = false;
}

static void accept_connections(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		connections[fd].ends = false;
#ifdef HTTP
		http_open(&connections[fd].http);
#endif
		watch_connection(EPOLL_CTL_ADD, fd);
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		full = true;
		watch(EPOLL_CTL_MOD, listener, 0);
	}
}

/* Writes at once, and keeps the rest. False: the connection is lost. */
static inline bool send_all(int fd, struct connection *connection, struct iovec *iov,
                            int count)
{
	size_t all = 0;
	ssize_t sent = count == 1 ? send(fd, iov->iov_base, iov->iov_len, 0)
	                          : writev(fd, iov, count);

	if (sent < 0 && errno != EAGAIN)
		return false;
	for (int i = 0; i < count; i++)
		all += iov[i].iov_len;
	if (sent == (ssize_t)all)
		return true;
	connection->rest = rest_of(iov, count, sent < 0 ? 0 : (size_t)sent,
	                           &connection->length);
	connection->sent = 0;
	return connection->rest;
}

/* Answers length bytes of buffer. False: this was the last answer. */
static inline bool answer(int fd, struct connection *connection, size_t length)
{
#ifdef HTTP
	http_read(&connection->http, buffer, length);
	return (!http_count || send_all(fd, connection, http_answers, http_count))
	       && !connection->http.ended;
#else
	return send_all(fd, connection, &(struct iovec){ buffer, length }, 1);
#endif
}

/* Writes the rest, and then asks for input. False: the connection is lost. */
static bool send_rest(int fd, struct connection *connection)
{
	ssize_t sent = send(fd, connection->rest + connection->sent,
	                    connection->length - connection->sent, 0);

	if (sent < 0)
		return errno == EAGAIN;
	connection->sent += (size_t)sent;
	if (connection->sent == connection->length) {
		free(connection->rest);
		connection->rest = NULL;
		watch_connection(EPOLL_CTL_MOD, fd);
		return !connection->ends;
	}
	return true;
}

/* False: close. */
static inline bool receive(int fd, struct connection *connection, uint32_t events)
{
	ssize_t length = recv(fd, buffer, sizeof buffer, 0);

	if (length < 0)
		return errno == EAGAIN;
	if (length == 0)
		return false;
	if (!answer(fd, connection, (size_t)length)) {
		connection->ends = true;
		return connection->rest;
	}
	if ((length == sizeof buffer || events & EPOLLRDHUP) && !connection->rest)
		watch_connection(EPOLL_CTL_MOD, fd);
	return true;
}

static inline void handle(int fd, uint32_t events)
{
	struct connection *connection = &connections[fd];
	bool good = true;

	if (events & EPOLLERR)
		good = false;
	else if (connection->rest)
		good = !(events & EPOLLOUT) || send_rest(fd, connection);
	else if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
		good = receive(fd, connection, events);
	if (!good)
		close_connection(fd);
}

int main(int argc, char **argv)
{
	static struct epoll_event events[1024];
	uint16_t port = server_arguments(argc, argv);

#ifdef HTTP
	http_prepare(argv[2]);
#endif
	prepare_process();
	connections = calloc((size_t)sysconf(_SC_OPEN_MAX), sizeof *connections);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!connections || epoll < 0)
		fail("not enough memory");
	listener = listen_at(port, SOCK_NONBLOCK);
	watch(EPOLL_CTL_ADD, listener, EPOLLIN);
	print_ready();
	for (;;) {
		int count = epoll_wait(epoll, events, 1024, -1);

		for (int i = 0; i < count; i++)
			if (events[i].data.fd == listener)
				accept_connections();
			else
				handle(events[i].data.fd, events[i].events);
	}
}
