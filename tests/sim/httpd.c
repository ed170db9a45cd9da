/* SPDX-License-Identifier: MIT */
/*
 * examples/05-httpd: clients ask for files, several at a time, with ranges, and each
 * answer is complete and right, or the connection has ended.
 */
#include "server.h"

#include <fcntl.h>

enum { PORT = 8080, REQUESTS = 15, AT_ONCE = 3, MUCH = 300000, FILES = 4 };

static const char *const names[FILES] = { "small", "page.html", "large", "none" };
static const size_t sizes[FILES] = { 10, 5000, MUCH, 0 };

struct request {
	int    r_file;
	bool   r_head;
	bool   r_ranged;
	size_t r_from, r_to;            /* bytes of a range */
};

static char byte_of(int file, size_t i)
{
	return (char)((size_t)file + i * 7 % 251);
}

/* The files, on the disk of the server's host. */
static void write_files(void)
{
	char *data = malloc(MUCH);

	mkdir("/srv", 0755);
	mkdir("/srv/files", 0755);
	for (int f = 0; f < FILES - 1; f++) {
		char path[64];
		int fd;

		snprintf(path, sizeof path, "/srv/files/%s", names[f]);
		for (size_t i = 0; i < sizes[f]; i++)
			data[i] = byte_of(f, i);
		while ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0)
			CHECK(errno == EMFILE);
		for (size_t n = 0; n < sizes[f]; )
			n += (size_t)write(fd, data + n, sizes[f] - n);
		close(fd);
	}
	free(data);
}

static struct request choose(void)
{
	struct request r = { .r_file = (int)sim_choose(FILES),
			     .r_head = sim_choose(5) == 0 };

	r.r_ranged = sizes[r.r_file] > 0 && sim_choose(3) == 0;
	if (r.r_ranged) {
		r.r_from = sim_choose(sizes[r.r_file]);
		r.r_to = r.r_from + sim_choose(sizes[r.r_file] - r.r_from);
	}
	return r;
}

static void add_request(char *text, const struct request *r)
{
	text += strlen(text);
	text += sprintf(text, "%s /%s HTTP/1.1\r\nHost: a\r\n",
			r->r_head ? "HEAD" : "GET", names[r->r_file]);
	if (r->r_ranged)
		text += sprintf(text, "Range: bytes=%zu-%zu\r\n", r->r_from, r->r_to);
	strcpy(text, "\r\n");
}

/* What the head has to say. 0: that is so; or an error. */
static int read_head(struct ubuf_in *in, int *status, size_t *size, bool *last,
		     int64_t deadline)
{
	char *line;
	ssize_t n = ubuf_line(in, &line, deadline);

	if (n < 0)
		return (int)n;
	if (sscanf(line, "HTTP/1.1 %d ", status) != 1)
		sim_fail("no status: %s", line);
	*size = SIZE_MAX;
	while ((n = ubuf_line(in, &line, deadline)) > 0 && *line) {
		sscanf(line, "Content-Length: %zu", size);
		*last |= strcmp(line, "Connection: close") == 0;
	}
	return n < 0 ? (int)n : 0;
}

/* 0, or an error: the connection has ended. */
static int read_answer(struct ubuf_in *in, const struct request *r, bool *last,
		       int64_t deadline)
{
	bool ranged = r->r_ranged && !r->r_head;
	size_t size, part, from = ranged ? r->r_from : 0;
	char *bytes;
	int status, rc = read_head(in, &status, &size, last, deadline);

	if (rc)
		return rc;
	if (status == 503 || status == 408)     /* no descriptor is left; it was slow */
		return -EAGAIN;
	if (status != (r->r_file == FILES - 1 ? 404 : ranged ? 206 : 200))
		sim_fail("status %d for %s", status, names[r->r_file]);
	if (size != (ranged ? r->r_to - from + 1 : sizes[r->r_file]))
		sim_fail("size %zu for %s", size, names[r->r_file]);
	if (r->r_head)
		return 0;
	for (size_t at = 0; at < size && rc == 0; at += part) {
		part = size - at < 4096 ? size - at : 4096;
		rc = ubuf_take(in, part, &bytes, deadline);
		for (size_t i = 0; rc == 0 && i < part; i++)
			if (bytes[i] != byte_of(r->r_file, from + at + i))
				sim_fail("byte %zu of %s", from + at + i,
					 names[r->r_file]);
	}
	return rc;
}

/* Asks for some files at once. 0: all were answered. */
static int talk(int fd, struct ubuf_in *in)
{
	struct request r[AT_ONCE];
	int n = 1 + (int)sim_choose(AT_ONCE), rc;
	char text[AT_ONCE * 200] = "";
	int64_t deadline = usync_after(5 * SECOND);
	bool last = false;

	for (int i = 0; i < n; i++) {
		r[i] = choose();
		add_request(text, &r[i]);
	}
	rc = unet_write_all(fd, text, strlen(text), NULL, deadline);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = last ? -EPIPE : read_answer(in, &r[i], &last, deadline);
	if (rc)
		lose(rc);
	return last ? -EPIPE : rc;
}

static void ask(void *unused)
{
	struct ubuf_in in;
	int fd = -1;

	(void)unused;
	for (int i = 0; i < REQUESTS; i++) {
		if (fd < 0) {
			fd = reach(PORT);
			ubuf_in_init(&in, fd, 10000);
		}
		if (talk(fd, &in) || sim_choose(10) == 0) {
			ubuf_in_free(&in);
			unet_close(fd);
			fd = -1;
		}
		pause_sometimes();
	}
	if (fd >= 0) {
		ubuf_in_free(&in);
		unet_close(fd);
	}
}

int main(int argc, char **argv)
{
	static char *arguments[] = { "httpd", "8080", "/srv/files", NULL };

	prepare(argc > 1 ? argv[1] : NULL);
	server.s_argv = arguments;
	server.s_begins = write_files;
	server.s_left = 1;                      /* its signals */
	run_server(5, PORT, ask);
	return 0;
}
