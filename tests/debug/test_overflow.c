/* SPDX-License-Identifier: MIT */
/*
 * test_overflow.c: what a process says, and how it dies, when a thread outgrows its
 * stack. Each death is that of a child. The Makefile has dladdr() come here. Functions
 * are static: the dynamic linker knows none of them.
 */
#define _GNU_SOURCE             /* dladdr, program_invocation_short_name */
#define USCHED_INLINE_SWITCH
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../ll.h"
#include "../../rr.h"
#include "../../uco.h"
#include "../../debug/uoverflow.h"
#include "../../usync.h"
#include "../help/child.h"
#include "../help/mini.h"

enum {
	SIZE      = 128 << 10,          /* bytes of a stack */
	ENOUGH    = 65536,              /* bytes of guard for -fstack-clash-protection */
};

static atomic_bool dladdr_hangs;

int __real_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info);

int __wrap_dladdr(const void *address, Dl_info *info)
{
	while (dladdr_hangs)
		pause();
	return __real_dladdr(address, info);
}

/* ---- A thread that outgrows its stack ---- */

static __attribute__((noinline)) int grow(const volatile char *above, int n)
{
	volatile char room[200];

	room[n % 200] = (char)(above ? above[n % 200] : 1);
	if (n == INT32_MAX)
		return 0;
	return grow(room, n + 1) + room[n % 200];
}

static void outgrow(void *arg)
{
	const struct ustack *self = ustack_self();

	(void)arg;
	told->t_thread = ustack_self();
	told->t_size = self->u_stack->k_size;
	told->t_low = (uintptr_t)self->u_stack->k_bottom - told->t_size;
	told->t_signo = grow(NULL, 0);          /* not in place of this call */
}

/*
 * The innermost and the outermost calls, where the handler knows what it has interrupted
 * and the unwinder passes the frame of a signal.
 */
static void assert_calls(void)
{
	const char *first, *more;

#if !defined(__x86_64__) && !defined(__aarch64__)
	return;
#endif
	if (!test_has_stacks() || test_is_sanitized())
		return;
	first = strstr(said, " grow");
	more = strstr(said, "\nusched:   and ");
	assert_true(first && more && first < more);
	assert_non_null(strstr(more, " more\nusched:   0x"));
	assert_non_null(strstr(more, " grow"));
	assert_non_null(strstr(more, " outgrow)\n"));
}

/* The message of outgrow(), on a native stack or one of SIZE bytes. */
static void assert_message(bool native)
{
	char expected[MESSAGE];
	uintptr_t function = (uintptr_t)outgrow;
	int n = snprintf(expected, sizeof expected,
			 "usched: stack overflow: thread %p, function %#" PRIxPTR ", ",
			 (void *)told->t_thread, function);

	if (!native)
		snprintf(expected + n, sizeof expected - (size_t)n, "stack of %d bytes "
			 "at %#" PRIxPTR "; c_stack_size of struct uprocs_conf sets it\n",
			 SIZE, told->t_low);
	else
		snprintf(expected + n, sizeof expected - (size_t)n, "native stack of ");
	assert_said(expected);
	snprintf(expected, sizeof expected, "\nusched:   thread %p, function %#" PRIxPTR
		 " (%s+0x", (void *)told->t_thread, function,
		 program_invocation_short_name);
	assert_said(expected);
	assert_said(" outgrow)");
	assert_calls();
}

static void assert_overflow(void (*func)(void *), void *arg, bool native)
{
	assert_killed(in_child(func, arg), SIGSEGV);
	assert_message(native || !test_has_stacks());
}

/* ---- Over the schedulers ---- */

struct how {
	struct uprocs_conf h_conf;
	bool               h_late;      /* installed when processors run */
};

/* A processor that runs threads has an alternate stack already. */
static void over_processors(void *arg)
{
	const struct how *how = arg;
	void *s;

	if (!how->h_late)
		TEST_EQUAL(uoverflow_install(), 0);
	s = make(&how->h_conf);
	if (how->h_late) {
		run_to_end(s, nothing, NULL);
		TEST_EQUAL(uoverflow_install(), 0);
	}
	run_to_end(s, outgrow, NULL);
	TEST_EQUAL(over->o_destroy(s), 0);
}

static struct how outgrow_on(unsigned stacks)
{
	return (struct how){
		.h_conf = { .c_processors = 1, .c_stacks = stacks, .c_stack_size = SIZE },
	};
}

TEST(test_processors)
{
	for (int late = 0; late < 2; late++) {
		struct how how = outgrow_on(0);

		how.h_late = late;
		assert_overflow(over_processors, &how, false);
		how.h_conf.c_stacks = USCHED_NATIVE;
		assert_overflow(over_processors, &how, true);
	}
}

/* The native thread that joins is the processor. */
TEST(test_embedded)
{
	struct how how = outgrow_on(0);

	how.h_conf.c_embed = 1;
	assert_overflow(over_processors, &how, false);
	how.h_conf.c_stacks = USCHED_NATIVE;
	assert_overflow(over_processors, &how, true);
}

/* After evictions and loads, and with a local. */
static void yield_and_outgrow(const volatile char *above)
{
	volatile char room[5000];

	room[77] = above ? above[77] : 7;
	for (int i = 0; i < 10; i++)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(room[77], above ? above[77] : 7);
	grow(room, 0);
}

static void outgrow_later(void *arg)
{
	usync_sleep_until(usync_after(1));
	told->t_thread = ustack_self();
	TEST_EQUAL(ustack_name(told->t_thread, "later"), 0);
	yield_and_outgrow(arg);
}

static void over_one_stack(void *arg)
{
	struct uprocs_conf conf = {
		.c_processors = 1, .c_stacks = 1, .c_stack_size = SIZE,
	};
	struct ustack *t[3];
	void *s = make(&conf);

	(void)arg;
	TEST_EQUAL(uoverflow_install(), 0);
	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(over->o_start(s, outgrow_later, NULL, &t[i]), 0);
	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(ustack_join(t[i], NULL, USCHED_NEVER), 0);
}

TEST(test_reloaded)
{
	char expected[200];

	assert_killed(in_child(over_one_stack, NULL), SIGSEGV);
	snprintf(expected, sizeof expected, " \"later\", function %#" PRIxPTR " (",
		 (uintptr_t)outgrow_later);
	assert_said(expected);
	assert_said(" outgrow_later)");
}

/* A thread with an own stack, smaller than others, or larger. */
static void over_own_stack(void *size)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stack_size = SIZE };
	struct ustack *t;
	void *s = make(&conf);
	size_t own = *(size_t *)size;

	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(over->o_start_with(s, TEST_HOW(.h_stack = own), outgrow,
				      NULL, &t), 0);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
}

/* The message says how large it is, and not what c_stack_size is. */
TEST(test_own)
{
	static const size_t sizes[] = { SIZE / 2, 2 * SIZE, USTACK_OWN };
	char expected[200];

	if (!test_has_stacks())
		skip();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t size = sizes[i] == USTACK_OWN ? SIZE : sizes[i];

		assert_killed(in_child(over_own_stack, (void *)(uintptr_t)&sizes[i]),
			      SIGSEGV);
		snprintf(expected, sizeof expected, "usched: stack overflow: thread %p, "
			 "function %#" PRIxPTR ", own stack of %zu bytes at %#" PRIxPTR
			 "; the call that started the thread sets it\n",
			 (void *)told->t_thread, (uintptr_t)outgrow, size, told->t_low);
		assert_said(expected);
	}
}

/* In a coroutine that was resumed before. */
static void *outgrow_inside(void *unused, void *value)
{
	(void)unused;
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(uco_yield(NULL, NULL), 0);
	grow(NULL, 0);
	return value;
}

static void outgrow_by_resume(void *unused)
{
	struct uco *co;

	(void)unused;
	TEST_EQUAL(uco_create(outgrow_inside, NULL, &co), 0);
	while (uco_resume(co, NULL, NULL) == 0)
		;
}

static void over_coroutine(void *unused)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stack_size = SIZE };
	void *s = make(&conf);

	(void)unused;
	TEST_EQUAL(uoverflow_install(), 0);
	run_to_end(s, outgrow_by_resume, NULL);
}

TEST(test_coroutine)
{
	char expected[200];

	assert_killed(in_child(over_coroutine, NULL), SIGSEGV);
	snprintf(expected, sizeof expected, "function %#" PRIxPTR,
		 (uintptr_t)outgrow_by_resume);
	assert_said("usched: stack overflow: thread 0x");
	assert_said(expected);
}

static atomic_int at_once;

static void outgrow_at_once(void *arg)
{
	(void)arg;
	at_once++;
	while (at_once < 2)
		;
	grow(NULL, 0);
}

static void over_two(void *arg)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stack_size = SIZE };
	struct ustack *t[2];
	void *s;

	(void)arg;
	TEST_EQUAL(uoverflow_install(), 0);
	s = make(&conf);
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(over->o_start(s, outgrow_at_once, NULL, &t[i]), 0);
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(ustack_join(t[i], NULL, USCHED_NEVER), 0);
}

/* Two overflows at once: one death, and only whole lines. */
TEST(test_two)
{
	if (test_is_single())                   /* one is after the other */
		skip();
	for (int i = 0; i < 20; i++) {
		assert_killed(in_child(over_two, NULL), SIGSEGV);
		assert_said("usched: stack overflow: thread 0x");
		if (said[strlen(said) - 1] != '\n')
			fail_msg("'%s'", said);
	}
}

/* There is no message without uoverflow_install(). */
static void over_uninstalled(void *arg)
{
	struct uprocs_conf conf = { .c_processors = 1 };

	(void)arg;
	run_to_end(make(&conf), outgrow, NULL);
}

TEST(test_optional)
{
	assert_killed(in_child(over_uninstalled, NULL), SIGSEGV);
	assert_silent();
}

/* Of two functions in turn, of which one is libc's. */
static int sort_deeper(const void *a, const void *b)
{
	int values[] = { *(const int *)a, *(const int *)b };

	qsort(values, 2, sizeof *values, sort_deeper);
	return values[0] - values[1];
}

static void sort_and_outgrow(void *unused)
{
	const int zero = 0;

	(void)unused;
	sort_deeper(&zero, &zero);
}

/* Where the lock of the dynamic linker is held, the first line comes, and death. */
static void over_locked(void *arg)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stack_size = SIZE };
	sigset_t set;

	(void)arg;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);         /* no other thread takes it */
	TEST_EQUAL(uoverflow_install(), 0);
	dladdr_hangs = true;
	run_to_end(make(&conf), sort_and_outgrow, NULL);
}

TEST(test_no_names)
{
	assert_killed(in_child(over_locked, NULL), SIGSEGV);
	assert_said("usched: stack overflow: thread 0x");
}

/* ---- Over the dispatcher alone ---- */

static void run_plain(struct mini *p, void (*func)(void *))
{
	static struct ustack u;

	mini_start(p, &u, func, NULL);
	TEST_EQUAL(usched_run(&p->p_sched), 0);
}

static void *on_native_stack(void *arg)
{
	static struct mini plain;

	(void)arg;
	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(uoverflow_install(), 0);             /* again */
	mini_init(&plain, 0, 0);
	run_plain(&plain, outgrow);
	return NULL;
}

static void in_first(void *arg)
{
	on_native_stack(arg);
}

static void in_another(void *arg)
{
	pthread_t native;

	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(pthread_create(&native, NULL, on_native_stack, arg), 0);
	pthread_join(native, NULL);
}

TEST_ONCE(test_native_stacks)
{
	assert_overflow(in_first, NULL, true);
	assert_overflow(in_another, NULL, true);
}

/* A lent stack at `base', whatever is below. */
static void lend(struct mini *p, char *base)
{
	mini_init(p, 0, 0);
	TEST_EQUAL(usched_add_stack(&p->p_sched, base, SIZE), 0);
}

static void in_lent_stack(void *fd)
{
	static struct mini plain;
	char *map = mmap(NULL, ENOUGH + SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *guard;

	TEST_TRUE(map != MAP_FAILED);
	guard = mmap(map, ENOUGH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		     *(int *)fd, 0);
	TEST_TRUE(guard == map);
	TEST_EQUAL(uoverflow_install(), 0);
	lend(&plain, map + ENOUGH);
	run_plain(&plain, outgrow);
}

/* With an empty file for a guard, an overflow is a SIGBUS, and kills by SIGSEGV. */
TEST_ONCE(test_bus)
{
	FILE *empty = tmpfile();
	int fd;

	if (!test_has_stacks() || test_emulator_fails("addresses"))
		skip();
	assert_non_null(empty);
	fd = fileno(empty);
	assert_overflow(in_lent_stack, &fd, false);
	assert_null(strstr(strstr(said, "usched: stack") + 1, "usched: stack"));
	fclose(empty);
}

/* gcc ignores it for RISC-V until version 15. */
#if defined(__GNUC__) && !defined(__clang__) && !(defined(__riscv) && __GNUC__ < 15)
#define STEP_BY_STEP __attribute__((noinline, optimize("stack-clash-protection")))

/* The frame is larger than stack and guard, and the first access is at its far end. */
STEP_BY_STEP static int leap(size_t i)
{
	volatile char room[SIZE + ENOUGH + 4096];

	room[i] = 1;
	return room[i];
}

static void outleap(void *arg)
{
	(void)arg;
	leap(0);
}

static void over_neighbour(void *arg)
{
	static struct mini plain;
	char *map = mmap(NULL, ENOUGH + SIZE + ENOUGH + SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	TEST_TRUE(map != MAP_FAILED);
	TEST_TRUE(mmap(map, ENOUGH + SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map);
	TEST_EQUAL(mprotect(map + ENOUGH + SIZE, ENOUGH, PROT_NONE), 0);
	TEST_EQUAL(uoverflow_install(), 0);
	lend(&plain, map + ENOUGH + SIZE + ENOUGH);
	run_plain(&plain, outleap);
}
#endif

/* With -fstack-clash-protection no frame steps over a guard. */
TEST_ONCE(test_leap)
{
#ifdef STEP_BY_STEP
	if (!test_has_stacks())
		skip();
	assert_killed(in_child(over_neighbour, NULL), SIGSEGV);
	assert_said("usched: stack overflow: thread 0x");
#else
	print_message("this compiler has nothing for -fstack-clash-protection\n");
	skip();
#endif
}

int main(void)
{
	child_begin();
	return over_all(OVER_PROCS);
}
