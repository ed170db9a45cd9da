/* SPDX-License-Identifier: MIT */
/*
 * uv.h: the servers with libuv. The including file defines struct protocol, the state of
 * a connection, open_protocol(), and answer().
 */
#ifndef PEERS_UV_H
#define PEERS_UV_H

#include <stdbool.h>

#include <uv.h>

#include "../c/server.h"

struct connection {
	uv_tcp_t tcp;                   /* first: libuv passes pointers to it */
	uv_write_t write;               /* of rest */
	char *rest;                     /* not written at once; or NULL */
	bool ends;                      /* to close after rest is written */
	struct protocol protocol;
};

/* On Unix a uv_buf_t is a struct iovec. */
_Static_assert(sizeof(uv_buf_t) == sizeof(struct iovec)
               && offsetof(uv_buf_t, base) == offsetof(struct iovec, iov_base)
               && offsetof(uv_buf_t, len) == offsetof(struct iovec, iov_len), "uv_buf_t");

/* Shared: libuv fills it and passes it on at once. */
static char buffer[BUFFER_SIZE];

static void open_protocol(struct connection *connection);

/* Answers length bytes of buffer. False: this was the last answer. */
static bool answer(struct connection *connection, size_t length);

static void on_close(uv_handle_t *handle)
{
	struct connection *connection = (struct connection *)handle;

	free(connection->rest);
	free(connection);
}

static void close_connection(struct connection *connection)
{
	if (!uv_is_closing((uv_handle_t *)connection))
		uv_close((uv_handle_t *)connection, on_close);
}

static void on_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	(void)handle;
	(void)size;
	*buf = uv_buf_init(buffer, sizeof buffer);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf)
{
	struct connection *connection = (struct connection *)stream;

	(void)buf;
	if (length < 0) {
		close_connection(connection);
	} else if (length > 0 && !answer(connection, (size_t)length)) {
		connection->ends = true;
		if (!connection->rest)
			close_connection(connection);
	}
}

static void on_written(uv_write_t *request, int error)
{
	struct connection *connection = (struct connection *)request->handle;

	free(connection->rest);
	connection->rest = NULL;
	if (error || connection->ends
	    || uv_read_start(request->handle, on_buffer, on_read))
		close_connection(connection);
}

/* Writes at once. Keeps the rest, and reads after it is written. False: it is lost. */
static inline bool send_all(struct connection *connection, const uv_buf_t *bufs,
                            int count)
{
	uv_stream_t *stream = (uv_stream_t *)connection;
	size_t all = 0;
	uv_buf_t rest;
	int sent = uv_try_write(stream, bufs, (unsigned)count);

	if (sent < 0 && sent != UV_EAGAIN)
		return false;
	for (int i = 0; i < count; i++)
		all += bufs[i].len;
	if (sent >= 0 && (size_t)sent == all)
		return true;
	connection->rest = rest_of((const struct iovec *)bufs, count,
	                           sent < 0 ? 0 : (size_t)sent, &all);
	if (!connection->rest)
		return false;
	rest = uv_buf_init(connection->rest, (unsigned)all);
	uv_read_stop(stream);
	if (!uv_write(&connection->write, stream, &rest, 1, on_written))
		return true;
	free(connection->rest);
	connection->rest = NULL;
	return false;
}

static void on_connection(uv_stream_t *listener, int error)
{
	struct connection *connection = error ? NULL : calloc(1, sizeof *connection);
	uv_stream_t *stream = (uv_stream_t *)connection;

	if (!connection)
		return;
	open_protocol(connection);
	uv_tcp_init(listener->loop, &connection->tcp);
	if (uv_accept(listener, stream) || uv_read_start(stream, on_buffer, on_read))
		close_connection(connection);
}

__attribute__((noreturn)) static void serve(uint16_t port)
{
	static uv_tcp_t listener;
	uv_loop_t *loop = uv_default_loop();

	prepare_process();
	if (!loop || uv_tcp_init(loop, &listener)
	    || uv_tcp_open(&listener, listen_at(port, SOCK_NONBLOCK))
	    || uv_listen((uv_stream_t *)&listener, BACKLOG, on_connection))
		fail("cannot listen");
	print_ready();
	uv_run(loop, UV_RUN_DEFAULT);
	fail("the loop has ended");
}

#endif
