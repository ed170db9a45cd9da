/* SPDX-License-Identifier: MIT */
#include "embed.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../unet.h"

void *embedded;
bool on_native;
atomic_int lines, done;
size_t turns;

void count_line(const char *line)
{
	(void)line;
	lines++;
}

void each(void (*test)(void))
{
	static const struct uprocs_conf confs[] = {
		{ .c_embed = 1, .c_log = count_line },
		{ .c_embed = 1, .c_log = count_line, .c_stacks = 1 },
		{ .c_embed = 1, .c_log = count_line, .c_stacks = USCHED_NATIVE },
	};

	for (size_t i = test_has_stacks() ? 0 : 2; i < 3; i++) {
		size_t before = test_descriptors();

		on_native = i == 2;
		lines = 0;
		done = 0;
		assert_int_equal(over->o_create(&confs[i], &embedded), 0);
		test();
		assert_int_equal(test_descriptors(), before);
	}
}

struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(over->o_start(embedded, func, arg, &u), 0);
	return u;
}

static bool is_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) != 0;
}

__attribute__((noinline)) int loop(int n)
{
	int fd = over->o_run(embedded), rc;

	turns = 0;
	if (fd < 0)
		return fd;
	while (done < n) {
		struct pollfd p = { fd, POLLIN, 0 };

		TEST_EQUAL(poll(&p, 1, -1), 1);
		TEST_EQUAL(p.revents, POLLIN);
		rc = over->o_run(embedded);
		if (rc < 0)
			return rc;
		TEST_EQUAL(rc, fd);
		turns++;
	}
	for (int i = 0; i < 10 && is_readable(fd); i++)
		TEST_EQUAL(over->o_run(embedded), fd);
	TEST_TRUE(!is_readable(fd));
	return fd;
}

void finish(void)
{
	assert_int_equal(over->o_destroy(embedded), 0);
	assert_int_equal(lines, 0);
}

void sleep_native(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MILLI };

	nanosleep(&t, NULL);
}

/* ---- Threads ---- */

void once(void *unused)
{
	(void)unused;
	done++;
}

void sleep_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < SLEEPS; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	done++;
}

void wait_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wait(), 0);
	done++;
}

static int pair[2];

static void echo(void *arg)
{
	int fd = pair[0];
	char data[64];
	ssize_t n;

	(void)arg;
	while ((n = unet_read(fd, data, sizeof data, USCHED_NEVER)) > 0)
		TEST_EQUAL(unet_write_all(fd, data, (size_t)n, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(n, 0);
	TEST_EQUAL(unet_close(fd), 0);
	done++;
}

static void *talk(void *unused)
{
	char c;

	for (char i = 'a'; i <= 'z'; i++) {
		TEST_EQUAL(write(pair[1], &i, 1), 1);
		TEST_EQUAL(read(pair[1], &c, 1), 1);
		TEST_EQUAL(c, i);
	}
	close(pair[1]);
	return unused;
}

struct ustack *go_echo(pthread_t *native)
{
	struct ustack *u;

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	u = go(echo, NULL);
	TEST_EQUAL(pthread_create(native, NULL, talk, NULL), 0);
	return u;
}
