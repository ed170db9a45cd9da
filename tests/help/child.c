/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE             /* MAP_ANONYMOUS */
#include "child.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct told *told;
char said[MESSAGE];

void child_begin(void)
{
	told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TEST_TRUE(told != MAP_FAILED);
}

static _Noreturn void be_child(void (*func)(void *), void *arg, int fd)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	dup2(fd, STDERR_FILENO);
	close(fd);
	signal(SIGSEGV, SIG_DFL);               /* cmocka has handlers */
	signal(SIGBUS, SIG_DFL);
	func(arg);
	_exit(SURVIVED);
}

int in_child(void (*func)(void *), void *arg)
{
	size_t length = 0;
	int ends[2], status;
	ssize_t n;
	pid_t child;

	memset(told, 0, sizeof *told);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		be_child(func, arg, ends[1]);
	close(ends[1]);
	while ((n = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
		length += (size_t)n;
	said[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

void assert_killed(int status, int signo)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) != signo)
		fail_msg("status %#x, not signal %d: %s", (unsigned)status, signo, said);
}

void assert_survived(int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != SURVIVED)
		fail_msg("status %#x: %s", (unsigned)status, said);
}

void assert_said(const char *text)
{
	if (!strstr(said, text))
		fail_msg("'%s' is not in '%s'", text, said);
}

void assert_silent(void)
{
	if (strstr(said, "usched: stack overflow"))
		fail_msg("%s", said);
}

void skip_on_valgrind(void)
{
	if (test_on_valgrind()) {
		print_message("memcheck takes handled faults for errors\n");
		skip();
	}
}
