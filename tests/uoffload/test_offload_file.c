/* SPDX-License-Identifier: MIT */
/*
 * test_offload_file.c: files and names by the pool of native threads, and that these do
 * not wait for each other. Linked with -Wl,--wrap=getaddrinfo.
 */
#include "../help/pool.h"

#include <netdb.h>
#include <sys/stat.h>

int __real_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);

static atomic_bool names_wait;
static atomic_int names_inside;
static atomic_int names_error;          /* of getaddrinfo(); 0: it is called */

int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list)
{
	names_inside++;
	while (names_wait)
		sleep_native(1);
	names_inside--;
	if (names_error)
		return names_error;
	return __real_getaddrinfo(host, service, hints, list);
}

/* ---- Calls that occupy the only native thread of their class ---- */

static const char *fifo;
static atomic_int fifo_fd;

static void open_fifo(void *unused)
{
	(void)unused;
	fifo_fd = ufile_open(fifo, O_RDONLY, 0, NEVER);
}

/* The open waits for a writer. */
static struct ustack *occupy_files(void)
{
	struct ustack *u;

	TEST_EQUAL(uoffload_limit(1), 0);
	make_directory();
	fifo = path_of("fifo");
	TEST_EQUAL(mkfifo(fifo, 0600), 0);
	u = go(open_fifo, NULL);
	await_waiting(u);                       /* so it is before all others */
	return u;
}

static void free_files(struct ustack *occupier)
{
	int fd;

	while ((fd = open(fifo, O_WRONLY | O_NONBLOCK)) < 0)
		nap(1);                         /* it is not there yet */
	join(occupier);
	TEST_TRUE(fifo_fd >= 0);
	TEST_EQUAL(close(fifo_fd), 0);
	TEST_EQUAL(close(fd), 0);
	TEST_EQUAL(unlink(fifo), 0);
	remove_directory();
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

static void look_up_number(void *unused)
{
	struct unet_addr found;

	(void)unused;
	TEST_EQUAL(unet_resolve("192.0.2.7", "80", SOCK_STREAM, &found, 1, NEVER), 1);
}

static struct ustack *occupy_names(void)
{
	struct ustack *u;

	TEST_EQUAL(uoffload_limit(1), 0);
	names_wait = true;
	u = go(look_up_number, NULL);
	await_count(&names_inside, 1);
	return u;
}

static void free_names(struct ustack *occupier)
{
	names_wait = false;
	join(occupier);
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* ---- Files ---- */

static void file_errors(const char *path, int64_t d)
{
	char c = 0;
	int fds[2];

	TEST_EQUAL(ufile_open("/nonexistent/usched", O_RDONLY, 0, d), -ENOENT);
	TEST_EQUAL(ufile_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, d), -EEXIST);
	TEST_EQUAL(ufile_open(directory, O_RDWR, 0, d), -EISDIR);
	TEST_EQUAL(ufile_pread(-1, &c, 1, 0, d), -EBADF);
	TEST_EQUAL(ufile_pwrite(-1, &c, 1, 0, d), -EBADF);
	TEST_EQUAL(ufile_sync(-1, d), -EBADF);
	TEST_EQUAL(pipe(fds), 0);
	TEST_EQUAL(ufile_pread(fds[0], &c, 1, 0, d), -ESPIPE);
	TEST_EQUAL(ufile_pwrite(fds[1], &c, 1, 0, d), -ESPIPE);
	TEST_EQUAL(ufile_sync(fds[0], d), -EINVAL);
	close(fds[0]);
	close(fds[1]);
	TEST_EQUAL(ufile_open(path, O_RDONLY, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(ufile_open("", O_RDONLY, 0, d), -ENOENT);
}

/* More than a page of data that repeats nowhere. */
static void files(void)
{
	enum { SIZE = 20000 };
	int64_t d = usync_after(3600 * USYNC_SECOND);
	char *data = malloc(2 * SIZE), few[4] = "";
	const char *path;
	struct stat status;
	int fd;

	TEST_TRUE(data != NULL);
	make_directory();
	path = path_of("file");
	for (int i = 0; i < SIZE; i++)
		data[i] = (char)(i * 7 + i / 256);
	fd = ufile_open(path, O_RDWR | O_CREAT | O_EXCL, 0640, NEVER);
	TEST_TRUE(fd >= 0);
	TEST_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	TEST_EQUAL(ufile_pread(fd, few, 4, 0, d), 0);
	TEST_EQUAL(ufile_pwrite(fd, data, SIZE, 0, d), SIZE);
	TEST_EQUAL(ufile_pwrite(fd, "xyz", 3, 100, NEVER), 3);
	TEST_EQUAL(ufile_sync(fd, d), 0);
	TEST_EQUAL(fstat(fd, &status), 0);
	TEST_EQUAL(status.st_size, SIZE);
	TEST_EQUAL(status.st_mode & 0777, 0640);
	TEST_EQUAL(ufile_pread(fd, data + SIZE, SIZE, 0, d), SIZE);
	memcpy(data + 100, "xyz", 3);
	TEST_EQUAL(memcmp(data, data + SIZE, SIZE), 0);
	TEST_EQUAL(ufile_pread(fd, few, 4, SIZE - 2, NEVER), 2);
	TEST_EQUAL(memcmp(few, data + SIZE - 2, 2), 0);
	TEST_EQUAL(ufile_pread(fd, few, 4, SIZE, d), 0);
	TEST_EQUAL(ufile_pread(fd, few, 0, 0, d), 0);
	file_errors(path, d);
	TEST_EQUAL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	TEST_EQUAL(ufile_pread(fd, few, 3, 100, d), 3);
	TEST_EQUAL(memcmp(few, "xyz", 3), 0);
	TEST_EQUAL(close(fd), 0);
	TEST_EQUAL(unlink(path), 0);
	remove_directory();
	free(data);
}

/* A caller that gave up gets no descriptor: the pool closes the file. */
static void open_late(void)
{
	struct ustack *u = occupy_files();
	int64_t soon = usync_after(2 * MILLI);

	TEST_EQUAL(ufile_open("/dev/null", O_RDONLY, 0, soon), -ETIMEDOUT);
	free_files(u);
}

/* ---- Names ---- */

static int look_up(const char *name, struct unet_addr *found, size_t max, int64_t d)
{
	return unet_resolve(name, "80", SOCK_STREAM, found, max, d);
}

static void resolve(void)
{
	struct unet_addr found[4], one;
	int64_t d = usync_after(3600 * USYNC_SECOND);

	TEST_EQUAL(unet_resolve("192.0.2.7", "1234", SOCK_DGRAM, found, 4, d), 1);
	TEST_EQUAL(unet_addr("192.0.2.7:1234", &one), 0);
	TEST_EQUAL(found[0].ad_size, one.ad_size);
	TEST_EQUAL(memcmp(&found[0].ad_sockaddr, &one.ad_sockaddr, one.ad_size), 0);
	TEST_EQUAL(unet_resolve("192.0.2.7", "no-such-service", SOCK_STREAM, found, 4, d),
		   -ENOENT);
	TEST_EQUAL(look_up("localhost", found, 4, 0), -ETIMEDOUT);
}

static void resolve_localhost(void)
{
	struct unet_addr found[4];
	char text[UNET_TEXT_MAX];
	int64_t d = usync_after(3600 * USYNC_SECOND);
	int n;

	n = look_up("localhost", found, 4, NEVER);
	TEST_TRUE(n >= 1 && n <= 4);
	for (int i = 0; i < n; i++) {
		unet_text(&found[i], text);
		TEST_TRUE(!strncmp(text, "127.", 4) || !strcmp(text, "[::1]:80"));
		TEST_EQUAL(port_of(&found[i]), 80);
	}
	memset(found, 0x55, sizeof found);
	TEST_EQUAL(look_up("localhost", found, 1, d), 1);
	TEST_EQUAL(found[1].ad_size, 0x55555555);       /* not beyond `max' */
}

/* It may take a while to find that there is no network. */
static void resolve_nothing(void)
{
	struct unet_addr found[4];
	int rc = look_up("usched.invalid", found, 4, NEVER);

	TEST_TRUE(rc == -ENOENT || rc == -EAGAIN || rc == -EIO);
	uoffload_drain(USCHED_NEVER);
}

struct lookup {
	struct unet_addr l_found[4];
	int64_t          l_deadline;
	int              l_rc;
};

static void look_up_late(void *arg)
{
	struct lookup *l = arg;

	l->l_rc = look_up("localhost", l->l_found, 4, l->l_deadline);
}

/* A caller that gave up is not written to. */
static void resolve_late(void)
{
	static struct lookup l;
	struct ustack *u = occupy_names(), *v;

	for (int i = 0; i < 2; i++) {
		memset(&l, 0, sizeof l);
		l.l_deadline = i ? NEVER : usync_after(2 * MILLI);
		v = go(look_up_late, &l);
		if (i) {
			nap(3);
			TEST_EQUAL(ustack_cancel(v), 0);
		}
		join(v);
		TEST_EQUAL(l.l_rc, i ? -ECANCELED : -ETIMEDOUT);
	}
	free_names(u);
	TEST_EQUAL(l.l_found[0].ad_size, 0);
}

/* What the resolver says. */
static void resolver_errors(void)
{
	static const struct {
		int e_says;
		int e_rc;
	} errors[] = {
		{ EAI_NONAME, -ENOENT }, { EAI_SERVICE, -ENOENT },
#ifdef EAI_NODATA
		{ EAI_NODATA, -ENOENT },
#endif
		{ EAI_AGAIN, -EAGAIN }, { EAI_MEMORY, -ENOMEM },
		{ EAI_FAIL, -EIO }, { EAI_SYSTEM, -EIO }, { EAI_FAMILY, -EIO },
	};
	struct unet_addr found;

	for (size_t i = 0; i < COUNT(errors); i++) {
		names_error = errors[i].e_says;
		TEST_EQUAL(look_up("192.0.2.7", &found, 1, NEVER), errors[i].e_rc);
	}
	names_error = 0;
}

/* ---- Classes ---- */

static void do_nothing(void *unused)
{
	(void)unused;
}

enum { A_CALL, A_FILE, A_NAME, CLASSES };

static int make_call(int class, int64_t deadline)
{
	struct unet_addr found;
	int rc;

	if (class == A_CALL)
		return uoffload(do_nothing, NULL, NULL, 0, deadline);
	if (class == A_FILE) {
		rc = ufile_sync(-1, deadline);
		return rc == -EBADF ? 0 : rc;
	}
	rc = unet_resolve("192.0.2.7", "80", SOCK_STREAM, &found, 1, deadline);
	return rc == 1 ? 0 : rc;
}

/*
 * With the only native thread of a class occupied, calls of this class wait, and those of
 * others do not. Names wait in the wrapper, so these are not looked up.
 */
static void no_class_waits(void)
{
	static struct ustack *(*const occupy[])(void) = {
		occupy_pool, occupy_files, occupy_names };
	static void (*const make_free[])(struct ustack *) = {
		free_pool, free_files, free_names };

	for (int i = 0; i < CLASSES; i++) {
		struct ustack *u = occupy[i]();

		for (int k = 0; k < CLASSES; k++)
			TEST_EQUAL(make_call(k, usync_after(k == i ? 2 * MILLI
							  : 20 * USYNC_SECOND)),
				   (k == i ? -ETIMEDOUT : 0));
		make_free[i](u);
	}
}

static void needs_localhost(void)
{
	struct addrinfo *list;

	if (getaddrinfo("localhost", "80", NULL, &list) != 0)
		skip_because("no address of localhost here");
	freeaddrinfo(list);
}

static void test_localhost(void **state)
{
	needs_localhost();
	run_pool_case(state);
}

static void test_localhost_native(void **state)
{
	needs_localhost();
	run_native_case(state);
}

POOL_CASE(files)
POOL_CASE(open_late)
POOL_CASE(resolve)
POOL_CASE(resolve_late)
POOL_CASE(resolver_errors)
POOL_CASE(no_class_waits)
CASE_BY(test_localhost, "resolve_localhost", resolve_localhost, NULL)
NATIVE_CASE(files)
CASE_BY(test_localhost_native, "localhost", resolve_localhost, NULL)
NATIVE_CASE(resolve_nothing)

int main(void)
{
	return over_all(OVER_ALL);
}
