/* SPDX-License-Identifier: MIT
 *
 * adopt_httpd.c: an HTTP server as programs for libmicrohttpd are, with a thread for each
 * connection. It knows nothing of usched. adopt.sh runs it natively and with
 * libusched-posix.so.
 *
 *   cc adopt_httpd.c -lmicrohttpd -o adopt_httpd
 *   adopt_httpd PORT FILE
 *
 * /file is the file; /slow/N answers after N milliseconds; /echo gives back what was
 * posted; /count is how many requests there were. It says "ready", and ends upon SIGTERM.
 */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MHD_VERSION
#error "no libmicrohttpd"
#endif
#if MHD_VERSION < 0x00097002
typedef int answer;
#else
typedef enum MHD_Result answer;
#endif

/* The body of a request so far. */
struct body {
	char *bytes;
	size_t length;
};

static const char *path;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long requests;

static answer respond(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
	answer rc = r ? MHD_queue_response(c, status, r) : MHD_NO;

	if (r)
		MHD_destroy_response(r);
	return rc;
}

static answer say(struct MHD_Connection *c, unsigned status, const char *text,
		  size_t length)
{
	return respond(c, status, MHD_create_response_from_buffer(length, (void *)text,
		MHD_RESPMEM_MUST_COPY));
}

static answer send_file(struct MHD_Connection *c)
{
	int fd = open(path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return say(c, 404, "", 0);
	return respond(c, 200, MHD_create_response_from_fd((size_t)st.st_size, fd));
}

static answer slow(struct MHD_Connection *c, const char *number)
{
	long ms = atol(number);
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		continue;
	return say(c, 200, "slow\n", 5);
}

static answer counted(struct MHD_Connection *c)
{
	char text[32];
	int n;

	pthread_mutex_lock(&lock);
	n = snprintf(text, sizeof text, "%lu\n", requests);
	pthread_mutex_unlock(&lock);
	return say(c, 200, text, (size_t)n);
}

static answer take(struct body *b, const char *data, size_t length)
{
	char *more = realloc(b->bytes, b->length + length);

	if (!more)
		return MHD_NO;
	memcpy(more + b->length, data, length);
	b->bytes = more;
	b->length += length;
	return MHD_YES;
}

static answer handle(void *unused, struct MHD_Connection *c, const char *url,
		     const char *method, const char *version, const char *data,
		     size_t *length, void **state)
{
	struct body *b = *state;

	(void)unused;
	(void)version;
	(void)method;
	if (!b) {                       /* the first call: the head is there */
		*state = calloc(1, sizeof *b);
		return *state ? MHD_YES : MHD_NO;
	}
	if (*length) {
		answer rc = take(b, data, *length);

		*length = 0;
		return rc;
	}
	pthread_mutex_lock(&lock);
	requests++;
	pthread_mutex_unlock(&lock);
	if (!strcmp(url, "/file"))
		return send_file(c);
	if (!strcmp(url, "/small"))
		return say(c, 200, "hello", 5);
	if (!strcmp(url, "/echo"))
		return say(c, 200, b->bytes, b->length);
	if (!strncmp(url, "/slow/", 6))
		return slow(c, url + 6);
	if (!strcmp(url, "/count"))
		return counted(c);
	return say(c, 404, "", 0);
}

static void done(void *unused, struct MHD_Connection *c, void **state,
		 enum MHD_RequestTerminationCode why)
{
	struct body *b = *state;

	(void)unused;
	(void)c;
	(void)why;
	if (b)
		free(b->bytes);
	free(b);
	*state = NULL;
}

int main(int argc, char **argv)
{
	struct MHD_Daemon *daemon;
	sigset_t end;
	int number;

	if (argc != 3)
		return 2;
	path = argv[2];
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &end, NULL);
	daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION |
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL,
		(unsigned short)atoi(argv[1]), NULL, NULL, handle, NULL,
		MHD_OPTION_NOTIFY_COMPLETED, done, NULL,
		MHD_OPTION_CONNECTION_LIMIT, 10000u, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
		MHD_OPTION_END);
	if (!daemon)
		return 1;
	puts("ready");
	fflush(stdout);
	sigwait(&end, &number);
	MHD_stop_daemon(daemon);
	return 0;
}
