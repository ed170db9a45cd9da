/* SPDX-License-Identifier: MIT */
/*
 * delays.c: runs a program, and stops its native threads at random, as a busy machine
 * does, each of them for some time while the others go on.
 *
 *   delays STOP RATE PROGRAM [ARGUMENT...]
 *
 *   STOP   microseconds that a thread is stopped at most; half of that on average
 *   RATE   of a thousand chances that it has, one in each millisecond
 *
 * Processes that the program forks are left alone. Signals pass. Writes "delays: N stops"
 * on stderr in the end. The exit status is the program's, 128 and its number if a signal
 * ended it, 125 for errors here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4096, MILLI = 1000000, OWN_ERROR = 125 };

struct thread {
	pid_t   t_id;
	enum { RUNS, ASKED, STOPPED } t_state;
	int64_t t_until;                /* if it is stopped */
};

static struct thread threads[THREADS];
static size_t n_threads;
static unsigned long stops;
static uint64_t longest, rate;          /* ns; of a thousand */
static uint64_t random_state;

static pid_t start(char **command);
static int watch(pid_t program);
static bool take(pid_t id, int status);
static struct thread *find(pid_t id);
static void stop_some(void);
static uint64_t any(uint64_t n);
static int64_t now_ns(void);
static _Noreturn void die(const char *what);

int main(int argc, char **argv)
{
	int rc;

	if (argc < 4)
		die("delays STOP RATE PROGRAM [ARGUMENT...]");
	longest = strtoull(argv[1], NULL, 10) * 1000;
	rate = strtoull(argv[2], NULL, 10);
	random_state = (uint64_t)now_ns();
	if (longest == 0)
		die("STOP is a number of microseconds");
	rc = watch(start(argv + 3));
	fprintf(stderr, "delays: %lu stops\n", stops);
	return rc;
}

/* It waits for a byte that does not come, until it is traced. */
static pid_t start(char **command)
{
	int gate[2];
	pid_t id;
	char c;

	if (pipe(gate) < 0 || (id = fork()) < 0)
		die("pipe or fork");
	if (id == 0) {
		close(gate[1]);
		if (read(gate[0], &c, 1) == 0) {
			close(gate[0]);
			execvp(command[0], command);
		}
		perror(command[0]);
		_exit(OWN_ERROR);
	}
	close(gate[0]);
	if (ptrace(PTRACE_SEIZE, id, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) < 0)
		die("ptrace");
	close(gate[1]);
	return id;
}

static void tick(int number)
{
	(void)number;
}

/* Until it ends. Each millisecond a signal interrupts the wait. */
static int watch(pid_t program)
{
	const struct itimerval each = { { 0, 1000 }, { 0, 1000 } };
	const struct sigaction action = { .sa_handler = tick };
	int64_t last = 0;

	if (sigaction(SIGALRM, &action, NULL) < 0 ||
	    setitimer(ITIMER_REAL, &each, NULL) < 0)
		die("setitimer");
	find(program);
	for (;;) {
		int status;
		pid_t id = waitpid(-1, &status, __WALL);
		int64_t now = now_ns();

		if (id < 0 && errno != EINTR)
			die("waitpid");
		if (id > 0 && !take(id, status) && id == program)
			return WIFEXITED(status) ? WEXITSTATUS(status)
				: 128 + WTERMSIG(status);
		for (size_t i = 0; i < n_threads; i++) {
			struct thread *t = &threads[i];

			if (t->t_state == STOPPED && t->t_until <= now) {
				t->t_state = RUNS;
				ptrace(PTRACE_CONT, t->t_id, NULL, NULL);
			}
		}
		if (now - last >= MILLI) {
			last = now;
			stop_some();
		}
	}
}

/* What the kernel says of a thread. False: it has ended. */
static bool take(pid_t id, int status)
{
	struct thread *t = find(id);
	int event = status >> 16;

	if (!WIFSTOPPED(status)) {
		*t = threads[--n_threads];
		return false;
	}
	if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
		ptrace(PTRACE_LISTEN, id, NULL, NULL);  /* as SIGSTOP wants it */
	} else if (event == PTRACE_EVENT_STOP && t->t_state == ASKED) {
		t->t_state = STOPPED;
		t->t_until = now_ns() + (int64_t)any(longest);
		stops++;
	} else {
		uintptr_t signal = event ? 0 : (uintptr_t)WSTOPSIG(status);

		ptrace(PTRACE_CONT, id, NULL, (void *)signal);
	}
	return true;
}

/* A thread that is new here has an entry from now on. */
static struct thread *find(pid_t id)
{
	for (size_t i = 0; i < n_threads; i++)
		if (threads[i].t_id == id)
			return &threads[i];
	if (n_threads == THREADS)
		die("too many threads");
	threads[n_threads] = (struct thread){ .t_id = id };
	return &threads[n_threads++];
}

static void stop_some(void)
{
	for (size_t i = 0; i < n_threads; i++) {
		struct thread *t = &threads[i];

		if (t->t_state == RUNS && any(1000) < rate &&
		    ptrace(PTRACE_INTERRUPT, t->t_id, NULL, NULL) == 0)
			t->t_state = ASKED;
	}
}

/* Knuth's linear congruential numbers of 64 bits, by their high half. */
static uint64_t any(uint64_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 32) % n;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "delays: %s: %s\n", what, strerror(errno));
	exit(OWN_ERROR);
}
