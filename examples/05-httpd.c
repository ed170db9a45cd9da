/* SPDX-License-Identifier: MIT */
/*
 * A web server for the files below a directory: HTTP/1.1, a thread for each connection.
 * It needs Linux 5.6 and libhttp-parser-dev. Run it with a port and a directory:
 *
 *   cc -O2 examples/05-httpd.c build/one/usched-all.c -Ibuild/one -DUSCHED_DEBUG \
 *     -pthread -lhttp_parser -o httpd
 *   ./httpd 8080 /usr/share/doc
 *
 * The path /metrics is counters of processors, for Prometheus.
 *
 * An idle connection is a few frames; a busy one has a struct work as well. Requests that
 * arrive together are answered by one write. All threads run on one native thread and
 * switch only where they wait, so no lock is needed. After a SIGTERM it answers what has
 * arrived, and ends.
 */
#define _GNU_SOURCE             /* strptime(), timegm(), syscall() */
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "05-httpd.h"
#include "usched-all.h"

enum {                                  /* bytes, except KEPT, COSTS, OPENING, TRIES */
	IN_MAX   = 65536,               /* of a request, 8192 of its head */
	KEPT     = 256,                 /* answers in the cache, for a second */
	KEPT_MAX = 65536,               /* of a file in the cache */
	OUT_MAX  = 3 * KEPT_MAX,        /* written at once */
	COSTS    = 64,                  /* answers from the cache before others run; */
	OPENING  = 8,                   /* another costs as much as so many */
	TRIES    = 64,                  /* to open a file while others are renamed */
	IMAGE    = 144,                 /* for the frames of an idle connection */
};

#define IDLE   (60 * USYNC_SECOND)      /* between requests */
#define STALL  (10 * USYNC_SECOND)      /* to receive a request, or to send answers */
#define GRACE  (1 * USYNC_SECOND)       /* at the end, for requests on their way */
#define LINGER (5 * USYNC_SECOND)       /* for a client to take its last answer */

struct answer {
	time_t second;                  /* in which it is valid */
	size_t asked, size;             /* bytes of data: request, answer */
	char   data[];
};

struct work {
	int         fd;
	bool        close;              /* after the answers are written */
	bool        broken;             /* a write has failed: no byte may follow */
	int64_t     deadline;           /* of an incomplete request, or 0 */
	size_t      start;              /* of the request in `in' */
	size_t      have, size;         /* bytes in `in' and in `out' */
	http_parser parser;
	char        in[IN_MAX + 1], out[OUT_MAX];
};

static struct uprocs *rr;
static int listener, signals;
static struct usync_sem slots;          /* free places for connections */
static struct usync_group busy;         /* connections with a struct work */
static struct work *spare;
static bool stopping, late;
static struct answer *kept[KEPT];       /* the cache, by a hash of the request */
static time_t now;
static unsigned costs;                  /* since others could run */

static int check(int rc, const char *what)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "httpd: %s: %s\n", what, ustack_error(rc));
	exit(1);
}

/* parse() has made room. */
#define PUT(w, ...) ((w)->size += (size_t)sprintf((w)->out + (w)->size, __VA_ARGS__))

static bool flush(struct work *w)
{
	w->broken = w->broken
		|| unet_write_all(w->fd, w->out, w->size, NULL, usync_after(STALL)) < 0;
	w->size = 0;
	w->close |= w->broken;
	return !w->broken;
}

static void end_head(struct work *w)
{
	char date[48];

	strftime(date, sizeof date, "Date: " DATE "\r\n\r\n", gmtime(&now));
	PUT(w, "Connection: %s\r\n%s", w->close ? "close" : "keep-alive", date);
}

static void put_empty(struct work *w, enum http_status status, bool close)
{
	w->close |= close;
	PUT(w, "HTTP/1.1 %d %s\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n", status,
	    http_status_str(status));
	end_head(w);
}

/* Returns the status, and the range of the file: the first one, if there are several. */
static int choose(const struct work *w, const char *request, const struct stat *st,
		  const char *etag, long long *from, long long *to)
{
	char value[TEXT_MAX];
	time_t date;

	if (*field(request, "If-Match:", value)
	    ? !has_tag(value, etag, true)
	    : parse_date(field(request, "If-Unmodified-Since:", value), &date)
	      && date < st->st_mtim.tv_sec)
		return 412;
	if (*field(request, "If-None-Match:", value)
	    ? has_tag(value, etag, false)
	    : parse_date(field(request, "If-Modified-Since:", value), &date)
	      && date >= st->st_mtim.tv_sec)
		return 304;
	if (w->parser.method == HTTP_HEAD
	    || (*field(request, "If-Range:", value) && strcmp(value, etag) != 0)
	    || !parse_range(field(request, "Range:", value), st->st_size, from, to))
		return 200;
	return *from <= *to ? 206 : 416;
}

/* If the file is shorter than the head says, the connection is closed. */
static void put_body(struct work *w, int fd, long long from, long long to)
{
	for (ssize_t n = 1; from <= to && n > 0 && !w->broken; from += n) {
		size_t room = OUT_MAX - w->size, left = (size_t)(to - from + 1);

		n = ufile_pread(fd, w->out + w->size, room < left ? room : left,
				(off_t)from, USCHED_NEVER);
		w->size += n > 0 ? (size_t)n : 0;
		if (n <= 0 || (w->size == OUT_MAX && !flush(w)))
			w->close = true;
	}
}

static void put_file(struct work *w, const char *request, const char *path, int fd,
		     const struct stat *st)
{
	const char *dot = strrchr(path, '.'), *type = dot ? dot : "";
	long long size = st->st_size, from = 0, to = size - 1;
	char etag[64], date[32];
	int status;

	type = strcasecmp(type, ".html") == 0 ? "text/html"
	       : strcasecmp(type, ".css") == 0 ? "text/css"
	       : strcasecmp(type, ".js") == 0 ? "text/javascript"
	       : strcmp(type, ".prom") == 0 ? "text/plain; version=0.0.4"
	       : "application/octet-stream";
	sprintf(etag, "\"%llx-%llx.%lx\"", size, (long long)st->st_mtim.tv_sec,
		st->st_mtim.tv_nsec);
	strftime(date, sizeof date, DATE, gmtime(&st->st_mtim.tv_sec));
	status = choose(w, request, st, etag, &from, &to);
	PUT(w, "HTTP/1.1 %d %s\r\n", status, http_status_str((enum http_status)status));
	if (status == 206)
		PUT(w, "Content-Range: bytes %lld-%lld/%lld\r\n", from, to, size);
	if (status == 416)
		PUT(w, "Content-Range: bytes */%lld\r\n", size);
	if (status != 304)
		PUT(w, "Content-Length: %lld\r\n", status > 206 ? 0 : to - from + 1);
	PUT(w, "Content-Type: %s\r\nLast-Modified: %s\r\nETag: %s\r\n", type, date, etag);
	end_head(w);
	if (w->parser.method == HTTP_GET && status <= 206)
		put_body(w, fd, from, to);
}

/* For Prometheus: counters of processors, in memory. */
static int open_metrics(char *path)
{
	int fd = memfd_create(strcpy(path, "metrics.prom"), 0);

	if (fd >= 0 && uinspect_metrics(fd)) {
		close(fd);
		fd = -1;
		errno = ENOMEM;
	}
	return fd;
}

/*
 * Opens no file outside of the directory. A path with `..' fails with EAGAIN if any file
 * of the system is renamed meanwhile, since `..' might lead outside then.
 */
static int open_path(const char *path)
{
	struct open_how how = { .flags = O_NONBLOCK, .resolve = RESOLVE_IN_ROOT };
	int fd, tries = TRIES;

	do
		fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN && --tries > 0);
	return fd;
}

/* True: w->out has the whole answer. */
static bool put_answer(struct work *w, const char *request, const char *end)
{
	bool get = w->parser.method == HTTP_GET || w->parser.method == HTTP_HEAD;
	char text[TEXT_MAX], path[TEXT_MAX + 16];
	struct stat st = { 0 };
	int fd = -1, status;

	request += strspn(request, "\r\n");
	status = refuse(&w->parser, request, end);
	status = status || !get ? status : copy_path(text, request);
	if (status) {
		put_empty(w, (enum http_status)status, true);
		return false;
	}
	errno = 0;
	if (get && strcmp(text, "/metrics") == 0)
		fd = open_metrics(path);
	else if (get && *text && decode(text, path))
		fd = open_path(path);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		put_file(w, request, path, fd, &st);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOSYS
		 || errno == EAGAIN)
		put_empty(w, 503, true);
	else
		put_empty(w, get ? 404 : 405, false);
	if (fd >= 0)
		close(fd);
	return st.st_size <= KEPT_MAX && !w->close;
}

/* Answers from the cache for the rest of the second. */
static void answer(struct work *w, const char *request, size_t asked)
{
	size_t start = w->size, hash = asked;
	struct answer **slot, *a;

	for (size_t i = 0; i < asked; i += 3)
		hash = hash * 31 + (unsigned char)request[i];
	slot = &kept[hash % KEPT];
	a = *slot;
	if (!w->close && a && a->second == now && a->asked == asked
	    && memcmp(a->data, request, asked) == 0) {
		memcpy(w->out + start, a->data + asked, a->size);
		w->size += a->size;
	} else if ((costs += OPENING) && put_answer(w, request, request + asked)
		   && (a = malloc(sizeof *a + asked + w->size - start)) != NULL) {
		*a = (struct answer){ now, asked, w->size - start };
		memcpy(a->data, request, asked);
		memcpy(a->data + asked, w->out + start, a->size);
		free(*slot);
		*slot = a;
	}
}

static int on_complete(http_parser *p)
{
	http_parser_pause(p, 1);
	return 0;
}

/* What a client that expects it waits for, if more than the head is to come. */
static int on_head(http_parser *p)
{
	struct work *w = p->data;
	const char *request = w->in + w->start;
	bool sends = p->flags & F_CHUNKED
		|| (p->content_length > 0 && p->content_length != ULLONG_MAX);
	char value[TEXT_MAX];

	field(request + strspn(request, "\r\n"), "Expect:", value);
	if (sends && p->http_minor > 0 && strcasecmp(value, "100-continue") == 0)
		PUT(w, "HTTP/1.1 100 Continue\r\n\r\n");
	return 0;
}

/* Answers the complete requests, and keeps the rest. */
static void parse(struct work *w, size_t more)
{
	const http_parser_settings settings = { .on_headers_complete = on_head,
						.on_message_complete = on_complete };
	size_t done = w->have, have = done + more;
	http_parser *p = &w->parser;

	while (done < have && !w->close) {
		enum http_errno e;
		char next;

		if (w->size > KEPT_MAX)         /* room for two more */
			flush(w);
		done += http_parser_execute(p, &settings, w->in + done, have - done);
		e = HTTP_PARSER_ERRNO(p);
		if (e == HPE_PAUSED) {
			http_parser_pause(p, 0);
			if (!http_should_keep_alive(p) || (stopping && done == have))
				w->close = true;
			w->deadline = 0;
			next = w->in[done];
			w->in[done] = '\0';     /* for strchr() and the like */
			answer(w, w->in + w->start, done - w->start);
			w->in[done] = next;
			w->start = done;
			if (++costs >= COSTS) {
				costs = 0;
				ustack_yield();
			}
		} else if (e != HPE_OK) {
			w->in[have] = '\0';
			put_empty(w, (enum http_status)status_of(e, w->in + w->start,
								 w->in + done), true);
		}
	}
	w->have = have - w->start;
	memmove(w->in, w->in + w->start, w->have);
	w->start = 0;
	if (w->have == IN_MAX && !w->close)
		put_empty(w, 413, true);
}

/* Serves until no request is incomplete. False: close. Not in the frames of idle ones. */
__attribute__((noinline))
static bool talk(int fd)
{
	struct work *w = spare ? spare : malloc(sizeof *w);

	spare = NULL;
	if (!w)
		return false;
	usync_group_add(&busy, 1);
	memset(w, 0, offsetof(struct work, in));
	w->fd = fd;
	http_parser_init(&w->parser, HTTP_REQUEST);
	w->parser.data = w;
	do {
		ssize_t n = unet_read(fd, w->in + w->have, IN_MAX - w->have, w->deadline);

		now = time(NULL);
		if (n > 0)
			parse(w, (size_t)n);
		else if (n != -ETIMEDOUT)
			w->close = true;
		else if (w->have > 0)
			put_empty(w, 408, true);
		flush(w);
		if (w->have > 0 && w->deadline == 0)
			w->deadline = usync_after(STALL);
	} while (w->have > 0 && !w->close);
	if (w->close && !w->broken) {   /* drains, so that no reset is sent */
		unet_shutdown(fd, SHUT_WR);
		w->deadline = usync_after(LINGER);
		for (int i = 0; i < 64; i++)
			if (unet_read(fd, w->in, IN_MAX, w->deadline) <= 0)
				break;
	}
	usync_group_done(&busy);
	free(spare);
	spare = w;
	return !w->close;
}

static void connection(int fd, void *unused)
{
	(void)unused;
	while (unet_wait(fd, POLLIN, usync_after(IDLE)) == 0 && talk(fd))
		;
	unet_close(fd);
	usync_sem_post(&slots);
}

/* Accepts until it is cancelled, and then what is left in the backlog. */
static void accept_all(void *arg)
{
	struct ustack_how how = { .h_serve = connection };
	int fd = 0, rc;

	(void)arg;
	while (fd != -ETIMEDOUT
	       && (rc = usync_sem_wait(&slots, USCHED_NEVER)) != -ECANCELED) {
		fd = rc ? rc : unet_accept(listener, NULL, stopping ? 0 : USCHED_NEVER);
		how.h_fd = fd;
		if (fd < 0 || rr_start_with(rr, &how, NULL, NULL, NULL)) {
			unet_close(fd);
			ustack_yield();     /* out of memory, it cannot sleep */
			if (rc == 0)
				usync_sem_post(&slots);
		}
	}
	unet_close(listener);
}

/* Until what is busy has had its time. Idle connections need no answer. */
static void stop(void *acceptor)
{
	int64_t by;
	int rc;

	check(unet_signal(signals, USCHED_NEVER), "signal");
	stopping = true;
	ustack_cancel(acceptor);
	while (ustack_join(acceptor, NULL, USCHED_NEVER) == -ENOMEM)
		ustack_yield();
	by = usync_after(GRACE);
	while (usync_sleep_until(by) == -ENOMEM)
		ustack_yield();
	by = usync_after(STALL);
	while ((rc = usync_group_wait(&busy, by)) == -ENOMEM)
		ustack_yield();
	late = rc != 0;
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 64, .c_image = IMAGE,
				    .c_embed = 1 };
	struct unet_addr address;
	struct ustack *acceptor, *stopper;
	char text[64];
	sigset_t set;

	snprintf(text, sizeof text, "127.0.0.1:%s", argc == 3 ? argv[1] : "");
	if (unet_addr(text, &address) || argv[1][0] == '0')
		return dprintf(2, "usage: httpd PORT DIRECTORY\n"), 2;
	check(chdir(argv[2]) ? -errno : 0, argv[2]);
	slots.sm_count = (uint32_t)sysconf(_SC_OPEN_MAX) / 2 - 16;     /* two each */
	http_parser_set_max_header_size(8192);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signals = check(unet_signals(&set), "signals");
	listener = check(unet_listen(&address, 0, 0), text);
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, accept_all, NULL, &acceptor), "start");
	check(rr_start(rr, stop, acceptor, &stopper), "start");
	dprintf(1, "ready\n");
	check(ustack_join(stopper, NULL, USCHED_NEVER), "stop");
	if (late)
		uprocs_destroy(rr, 0);          /* says what is left */
	return uoffload_drain(usync_after(STALL)) || late;
}
