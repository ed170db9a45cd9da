/* SPDX-License-Identifier: MIT */
/*
 * test_overflow.c: what a process says, and how it dies, when a thread outgrows its
 * stack; and that other faults are what they were. Each death is that of a child. To be
 * linked with
 *
 *   -Wl,--wrap=dladdr -rdynamic
 */
#define _GNU_SOURCE
#include "test.h"

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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../ll.h"
#include "../uoverflow.h"
#include "../rr.h"
#include "../usync.h"
#include "mini.h"

enum {
	MESSAGE   = 8192,               /* characters of what a child says */
	SIZE      = 128 << 10,          /* bytes of a stack */
	THREADS   = 150,                /* more than processors map stacks for at first */
	ENOUGH    = 65536,              /* bytes of guard, for any -fstack-clash-protection */
	SURVIVED  = 33,                 /* exit status */
};

/* ---- Children, and what they tell their parent ---- */

struct told {
	struct ustack *t_thread;
	uintptr_t      t_low;           /* of its stack */
	size_t         t_size;
	atomic_int     t_handled;       /* calls of the handler before ours */
	int            t_signo;
	void          *t_address;
};

static struct told *told;               /* shared with children */
static char said[MESSAGE];              /* by the last child, on standard error */
static atomic_bool dladdr_hangs;

int __real_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info);

int __wrap_dladdr(const void *address, Dl_info *info)
{
	while (dladdr_hangs)
		pause();
	return __real_dladdr(address, info);
}

static void set_handler(int signo, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	TEST_EQUAL(sigaction(signo, &action, NULL), 0);
}

static _Noreturn void be_child(void (*func)(void *), void *arg, int fd)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	dup2(fd, STDERR_FILENO);
	close(fd);
	set_handler(SIGSEGV, SIG_DFL);          /* cmocka has its own */
	set_handler(SIGBUS, SIG_DFL);
	func(arg);
	_exit(SURVIVED);
}

/* Runs func(arg) in a child. Its wait status; what it said is in `said'. */
static int in_child(void (*func)(void *), void *arg)
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

static void assert_killed(int status, int signo)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) != signo)
		fail_msg("status %#x, not signal %d: %s", (unsigned)status, signo, said);
}

static void assert_survived(int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != SURVIVED)
		fail_msg("status %#x: %s", (unsigned)status, said);
}

static void assert_silent(void)
{
	if (strstr(said, "usched: stack overflow"))
		fail_msg("%s", said);
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

/* Not static: the dynamic linker knows its name. */
void outgrow(void *arg);

void outgrow(void *arg)
{
	const struct ustack *self = ustack_self();

	(void)arg;
	told->t_thread = ustack_self();
	told->t_size = self->u_stack->k_size;
	told->t_low = (uintptr_t)self->u_stack->k_bottom - told->t_size;
	grow(NULL, 0);
}

/* What is said of outgrow(), which runs on `native' or lent stacks of `size' bytes. */
static void assert_said(bool native, size_t size)
{
	char expected[MESSAGE];
	const char *program = program_invocation_name;
	uintptr_t function = (uintptr_t)outgrow;
	int n = snprintf(expected, sizeof expected,
			 "usched: stack overflow: thread %p, function %#" PRIxPTR ", ",
			 (void *)told->t_thread, function);

	if (!native)
		snprintf(expected + n, sizeof expected - (size_t)n, "stack of %zu bytes at "
			 "%#" PRIxPTR "; c_stack_size of struct usched_conf sets it\n",
			 size, told->t_low);
	else
		snprintf(expected + n, sizeof expected - (size_t)n, "native stack of ");
	if (!strstr(said, expected))
		fail_msg("'%s' is not in '%s'", expected, said);
	n = snprintf(expected, sizeof expected, "\nusched:   function %#" PRIxPTR
		     ": outgrow+0x0, %s+0x", function, program);
	if (!strstr(said, expected))
		fail_msg("'%s' is not in '%s'", expected, said);
}

static void assert_overflow(void (*func)(void *), void *arg, bool native)
{
	assert_killed(in_child(func, arg), SIGSEGV);
	assert_said(native || !test_has_stacks(), SIZE);
}

/* ---- Over the schedulers ---- */

struct how {
	struct usched_conf h_conf;
	bool               h_local;     /* ll */
	bool               h_late;      /* installed when processors run */
	void             (*h_func)(void *);
};

static void nothing(void *arg)
{
	(void)arg;
}

/* A processor that is up and running has its alternate stack already. */
static void run_one(struct rr *rr, struct ll *ll, void (*func)(void *), void *arg)
{
	struct ustack *t;

	TEST_EQUAL(ll ? ll_start(ll, NULL, func, arg, &t) : rr_start(rr, func, arg, &t), 0);
	TEST_EQUAL(ll ? ustack_join(t, USCHED_NEVER) : ustack_join(t, USCHED_NEVER), 0);
}

static void over_processors(void *arg)
{
	const struct how *how = arg;
	struct rr *rr = NULL;
	struct ll *ll = NULL;

	if (!how->h_late)
		TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(how->h_local ? ll_create(&how->h_conf, &ll)
		   : rr_create(&how->h_conf, &rr), 0);
	if (how->h_late) {
		run_one(rr, ll, nothing, NULL);
		TEST_EQUAL(uoverflow_install(), 0);
	}
	run_one(rr, ll, how->h_func, NULL);
	TEST_EQUAL(how->h_local ? ll_destroy(ll) : rr_destroy(rr), 0);
}

static struct how over(unsigned stacks, void (*func)(void *))
{
	return (struct how){
		.h_conf = { .c_processors = 1, .c_stacks = stacks, .c_stack_size = SIZE },
		.h_func = func,
	};
}

static void test_processors(void **state)
{
	(void)state;
	test_timeout(60);
	for (int local = 0; local < 2; local++) {
		for (int late = 0; late < 2; late++) {
			struct how how = over(0, outgrow);

			how.h_local = local;
			how.h_late = late;
			assert_overflow(over_processors, &how, false);
			how.h_conf.c_stacks = USCHED_NATIVE;
			assert_overflow(over_processors, &how, true);
		}
	}
}

/* The processor of the native thread that joins. */
static void test_embedded(void **state)
{
	struct how how = over(0, outgrow);

	(void)state;
	test_timeout(60);
	how.h_conf.c_embed = 1;
	assert_overflow(over_processors, &how, false);
	how.h_conf.c_stacks = USCHED_NATIVE;
	assert_overflow(over_processors, &how, true);
}

/* Evicted and loaded before, and with a local. */
static void yield_and_outgrow(const volatile char *above)
{
	volatile char room[5000];

	room[77] = above ? above[77] : 7;
	for (int i = 0; i < 10; i++)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(room[77], above ? above[77] : 7);
	grow(room, 0);
}

void outgrow_later(void *arg);

void outgrow_later(void *arg)
{
	usync_sleep_until(usync_after(1));
	told->t_thread = ustack_self();
	yield_and_outgrow(arg);
}

static void over_one_stack(void *arg)
{
	struct usched_conf conf = { .c_processors = 1, .c_stacks = 1, .c_stack_size = SIZE };
	struct ustack *t[3];
	struct rr *rr;

	(void)arg;
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	TEST_EQUAL(uoverflow_install(), 0);
	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(rr_start(rr, outgrow_later, NULL, &t[i]), 0);
	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(ustack_join(t[i], USCHED_NEVER), 0);
}

static void test_reloaded(void **state)
{
	char expected[200];

	(void)state;
	test_timeout(60);
	assert_killed(in_child(over_one_stack, NULL), SIGSEGV);
	snprintf(expected, sizeof expected, "function %#" PRIxPTR ": outgrow_later+0x0,",
		 (uintptr_t)outgrow_later);
	if (!strstr(said, expected))
		fail_msg("'%s' is not in '%s'", expected, said);
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
	struct usched_conf conf = { .c_processors = 2, .c_stack_size = SIZE };
	struct ustack *t[2];
	struct rr *rr;

	(void)arg;
	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(rr_start(rr, outgrow_at_once, NULL, &t[i]), 0);
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(ustack_join(t[i], USCHED_NEVER), 0);
}

/* Two at once: one death, and each line that was begun is whole. */
static void test_two(void **state)
{
	(void)state;
	test_timeout(60);
	for (int i = 0; i < 20; i++) {
		assert_killed(in_child(over_two, NULL), SIGSEGV);
		assert_non_null(strstr(said, "usched: stack overflow: thread 0x"));
		if (said[strlen(said) - 1] != '\n')
			fail_msg("'%s'", said);
	}
}

/* Without the call nothing is said. */
static void over_uninstalled(void *arg)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct rr *rr;

	(void)arg;
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	run_one(rr, NULL, outgrow, NULL);
}

static void test_optional(void **state)
{
	(void)state;
	test_timeout(60);
	assert_killed(in_child(over_uninstalled, NULL), SIGSEGV);
	assert_silent();
}

/* The dynamic linker's lock is not to be had: the first line is there, and death. */
static void over_locked(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);         /* nobody else will take it */
	TEST_EQUAL(uoverflow_install(), 0);
	dladdr_hangs = true;
	over_processors(arg);
}

static void test_no_names(void **state)
{
	struct how how = over(0, outgrow);

	(void)state;
	test_timeout(60);
	assert_killed(in_child(over_locked, &how), SIGSEGV);
	assert_non_null(strstr(said, "usched: stack overflow: thread 0x"));
	assert_null(strstr(said, "outgrow"));
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
	TEST_EQUAL(uoverflow_stack(), 0);
	TEST_EQUAL(uoverflow_stack(), 0);               /* has one */
	mini_init(&plain, 0, 0);
	run_plain(&plain, outgrow);
	return NULL;
}

static void in_first(void *arg)
{
	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(uoverflow_install(), 0);             /* is */
	on_native_stack(arg);
}

static void in_another(void *arg)
{
	pthread_t native;

	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(pthread_create(&native, NULL, on_native_stack, arg), 0);
	pthread_join(native, NULL);
}

static void test_native_stacks(void **state)
{
	(void)state;
	test_timeout(60);
	assert_overflow(in_first, NULL, true);
	assert_overflow(in_another, NULL, true);
}

/* A stack of our own, and what is below it. */
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

/* A guard that is an empty file: an overflow is a SIGBUS, and dies by SIGSEGV. */
static void test_bus(void **state)
{
	FILE *empty = tmpfile();
	int fd;

	(void)state;
	test_timeout(60);
	if (!test_has_stacks())
		skip();
	assert_non_null(empty);
	fd = fileno(empty);
	assert_overflow(in_lent_stack, &fd, false);
	assert_null(strstr(strstr(said, "usched: stack") + 1, "usched: stack"));
	fclose(empty);
}

#if defined(__GNUC__) && !defined(__clang__)
#define STEP_BY_STEP __attribute__((noinline, optimize("stack-clash-protection")))

/* Its frame is larger than the stack and the guard, and its first use is the far end. */
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

/* With -fstack-clash-protection nobody steps over a guard. */
static void test_leap(void **state)
{
	(void)state;
	test_timeout(60);
#ifdef STEP_BY_STEP
	if (!test_has_stacks())
		skip();
	assert_killed(in_child(over_neighbour, NULL), SIGSEGV);
	assert_non_null(strstr(said, "usched: stack overflow: thread 0x"));
#else
	print_message("this compiler has no attribute for -fstack-clash-protection\n");
	skip();
#endif
}

/* ---- Guards ---- */

/* Whether nothing can be read at `address', as the mappings say. */
static bool is_guarded(const char *maps, uintptr_t address)
{
	for (const char *line = maps; line; line = strchr(line + 1, '\n')) {
		uintptr_t from, to;
		char mode;

		if (sscanf(line, " %" SCNxPTR "-%" SCNxPTR " %c", &from, &to, &mode) == 3
		    && address >= from && address < to)
			return mode == '-';
	}
	return true;
}

static char *read_maps(void)
{
	size_t size = 1 << 20;
	char *maps = calloc(1, size + 1);
	FILE *f = fopen("/proc/self/maps", "r");

	TEST_TRUE(maps && f && fread(maps, 1, size, f) < size);
	fclose(f);
	return maps;
}

struct guarded {
	struct usched_stack *g_stack;
	uintptr_t            g_native;          /* low end of the native stack */
};

static atomic_size_t noted;

static void note_stack(void *arg)
{
	struct guarded *g = arg;
	pthread_attr_t attr;
	size_t size, guard;
	void *low;

	g->g_stack = ustack_self()->u_stack;
	TEST_EQUAL(pthread_getattr_np(pthread_self(), &attr), 0);
	TEST_EQUAL(pthread_attr_getstack(&attr, &low, &size), 0);
	TEST_EQUAL(pthread_attr_getguardsize(&attr, &guard), 0);
	pthread_attr_destroy(&attr);
	TEST_TRUE(guard > 0);
	g->g_native = (uintptr_t)low;
	noted++;
	ustack_wait();
}

/* Every stack, those that are lent later and the native ones included, has its guard. */
static void test_guards(void **state)
{
	static struct guarded g[THREADS];
	struct ustack *t[THREADS];
	size_t stacks = 0;

	(void)state;
	test_timeout(60);
	for (int native = 0; native < 2; native++) {
		struct usched_conf conf = { .c_processors = 1, .c_image = 2048 };
		struct rr *rr;
		char *maps;

		conf.c_stacks = native ? USCHED_NATIVE : 0;
		assert_int_equal(rr_create(&conf, &rr), 0);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(rr_start(rr, note_stack, &g[i], &t[i]), 0);
		while (noted < THREADS)
			usleep(1000);
		noted = 0;
		maps = read_maps();
		for (size_t i = 0; i < THREADS; i++) {
			uintptr_t low = g[i].g_native;

			if (!native && test_has_stacks()) {
				low = (uintptr_t)g[i].g_stack->k_bottom - g[i].g_stack->k_size;
				stacks++;
			}
			assert_false(is_guarded(maps, low));
			assert_true(is_guarded(maps, low - 1));
			assert_true(is_guarded(maps, low - ENOUGH));
		}
		free(maps);
		for (size_t i = 0; i < THREADS; i++) {
			assert_int_equal(ustack_wake(t[i]), 0);
			assert_int_equal(ustack_join(t[i], USCHED_NEVER), 0);
		}
		assert_int_equal(rr_destroy(rr), 0);
	}
	assert_int_equal(stacks, test_has_stacks() ? THREADS : 0);
}

/* ---- Faults that are none of ours ---- */

static char *volatile nowhere = (char *)64;     /* not NULL, which a sanitizer looks for */

/* A child that survives its fault has an exit status of memcheck's there. */
static void skip_on_valgrind(void)
{
	if (test_on_valgrind()) {
		print_message("memcheck takes faults that are handled for errors\n");
		skip();
	}
}

static void fault(void *address)
{
	*(volatile char *)(address ? address : nowhere) = 1;
}

static void count(int signo)
{
	told->t_handled++;
	told->t_signo = signo;
}

static void count_and_die(int signo)
{
	count(signo);
	_exit(SURVIVED);
}

static void count_info_and_die(int signo, siginfo_t *info, void *context)
{
	told->t_address = info->si_addr;
	TEST_TRUE(context);
	count_and_die(signo);
}

/* What a collector does: the fault was not in vain. */
static void unprotect(int signo, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)context;
	count(signo);
	TEST_EQUAL(mprotect((void *)((uintptr_t)info->si_addr & -page), page,
			    PROT_READ | PROT_WRITE), 0);
}

/* What a thread does, after a handler of SIGSEGV and one of SIGBUS was there before. */
struct fault {
	void           (*f_func)(void *);
	void            *f_arg;
	struct sigaction f_before, f_before_bus;
	bool             f_twice;
};

static void fault_in_thread(void *arg)
{
	const struct fault *f = arg;

	f->f_func(f->f_arg);
	if (f->f_twice)
		f->f_func(f->f_arg);
}

static void on_processor(void *arg)
{
	struct usched_conf conf = { .c_processors = 1 };
	const struct fault *f = arg;
	struct rr *rr;

	sigaction(SIGSEGV, &f->f_before, NULL);
	sigaction(SIGBUS, &f->f_before_bus, NULL);
	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	run_one(rr, NULL, fault_in_thread, arg);
	TEST_EQUAL(rr_destroy(rr), 0);
}

static void on_no_dispatcher(void *arg)
{
	const struct fault *f = arg;

	sigaction(SIGSEGV, &f->f_before, NULL);
	sigaction(SIGBUS, &f->f_before_bus, NULL);
	TEST_EQUAL(uoverflow_install(), 0);
	fault_in_thread(arg);
}

/* Without a handler before: status and silence are the same. */
static void test_default(void **state)
{
	struct fault f = { .f_func = fault };

	(void)state;
	test_timeout(60);
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
	assert_killed(in_child(on_no_dispatcher, &f), SIGSEGV);
	assert_silent();
	f.f_before.sa_handler = SIG_IGN;        /* a fault cannot be */
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
}

static void test_handlers(void **state)
{
	struct fault f = { .f_func = fault, .f_before = { .sa_handler = count_and_die } };

	(void)state;
	skip_on_valgrind();
	test_timeout(60);
	assert_survived(in_child(on_processor, &f));
	assert_int_equal(told->t_handled, 1);
	assert_int_equal(told->t_signo, SIGSEGV);
	f.f_before.sa_sigaction = count_info_and_die;
	f.f_before.sa_flags = SA_SIGINFO;
	f.f_arg = (void *)(uintptr_t)4096;
	assert_survived(in_child(on_processor, &f));
	assert_ptr_equal(told->t_address, f.f_arg);
	assert_survived(in_child(on_no_dispatcher, &f));
	assert_int_equal(told->t_handled, 1);
	assert_silent();
}

static void *protected_page(void)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	TEST_TRUE(page != MAP_FAILED);
	return page;
}

/* One that returns to where the fault was, which then succeeds. */
static void test_repaired(void **state)
{
	struct fault f = { .f_func = fault, .f_arg = protected_page(), .f_twice = true };

	(void)state;
	skip_on_valgrind();
	test_timeout(60);
	f.f_before.sa_sigaction = unprotect;
	f.f_before.sa_flags = SA_SIGINFO;
	assert_survived(in_child(on_processor, &f));
	assert_int_equal(told->t_handled, 1);
}

static sigjmp_buf jump;

static void jump_back(int signo)
{
	count(signo);
	siglongjmp(jump, 1);
}

static void fault_and_jump(void *arg)
{
	(void)arg;
	if (sigsetjmp(jump, 1) == 0)
		fault(nowhere);
}

/* One that jumps out, again and again; and one that is for once. */
static void test_jump(void **state)
{
	struct fault f = { .f_func = fault_and_jump, .f_twice = true };

	(void)state;
	skip_on_valgrind();
	test_timeout(60);
	f.f_before.sa_handler = jump_back;
	assert_survived(in_child(on_processor, &f));
	assert_int_equal(told->t_handled, 2);
	f.f_before.sa_flags = (int)SA_RESETHAND;
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_int_equal(told->t_handled, 1);
	assert_silent();
}

/* Signals that are sent are not faults. */
static void send(void *signo)
{
	raise(*(int *)signo);
}

static void test_sent(void **state)
{
	static const int signals[] = { SIGSEGV, SIGBUS };

	(void)state;
	test_timeout(60);
	for (size_t i = 0; i < 2; i++) {
		int signo = signals[i];
		struct fault f = { .f_func = send, .f_arg = &signo };

		assert_killed(in_child(on_processor, &f), signo);
		f.f_before.sa_handler = f.f_before_bus.sa_handler = SIG_IGN;
		assert_survived(in_child(on_processor, &f));
		f.f_before.sa_handler = f.f_before_bus.sa_handler = count;
		assert_survived(in_child(on_processor, &f));
		assert_int_equal(told->t_handled, 1);
		assert_int_equal(told->t_signo, signo);
		assert_silent();
	}
}

/* Where a file ends. */
static void fault_behind_end(void *fd)
{
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *(int *)fd, 0);

	TEST_TRUE(map != MAP_FAILED);
	fault(map);
}

static void test_bus_error(void **state)
{
	FILE *empty = tmpfile();
	int fd;
	struct fault f = { .f_func = fault_behind_end, .f_arg = &fd };

	(void)state;
	skip_on_valgrind();
	test_timeout(60);
	assert_non_null(empty);
	fd = fileno(empty);
	assert_killed(in_child(on_processor, &f), SIGBUS);
	assert_silent();
	f.f_before_bus.sa_handler = count_and_die;
	assert_survived(in_child(on_processor, &f));
	assert_int_equal(told->t_signo, SIGBUS);
	fclose(empty);
}

/* Below a stack on which another thread is, or none: a pointer gone astray. */
static void fault_at_another(void *arg)
{
	struct usched_stack *k = ustack_self()->u_stack->k_ring;

	(void)arg;
	TEST_TRUE(k != ustack_self()->u_stack);
	fault(k->k_bottom - k->k_size - 1);
}

static void test_astray(void **state)
{
	struct fault f = { .f_func = fault_at_another };

	(void)state;
	test_timeout(60);
	if (!test_has_stacks())
		skip();
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
}

/* ---- Alternate stacks ---- */

static char own[65536];

static void note_alternate(void *stack)
{
	TEST_EQUAL(sigaltstack(NULL, stack), 0);
}

static void *keep_own(void *arg)
{
	stack_t mine = { .ss_sp = own, .ss_size = sizeof own }, before, now;

	TEST_EQUAL(sigaltstack(&mine, &before), 0);
	TEST_EQUAL(uoverflow_stack(), 0);
	TEST_EQUAL(sigaltstack(NULL, &now), 0);
	TEST_TRUE(now.ss_sp == own);
	TEST_EQUAL(sigaltstack(&before, NULL), 0);
	return arg;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static size_t count_mappings(void)
{
	char *maps = read_maps();
	size_t n = count_lines(maps);

	free(maps);
	return n;
}

/* Processors have one and give it back; one that is there stays. */
static void test_alternate(void **state)
{
	struct usched_conf conf = { .c_processors = 2, .c_stacks = 1 };
	size_t mappings = 0;
	pthread_t native;
	stack_t stack;

	(void)state;
	test_timeout(60);
	for (int i = 0; i < 20; i++) {
		struct rr *rr;

		assert_int_equal(rr_create(&conf, &rr), 0);
		run_one(rr, NULL, note_alternate, &stack);
		assert_int_equal(rr_destroy(rr), 0);
		assert_false(stack.ss_flags & SS_DISABLE);
		assert_int_equal(pthread_create(&native, NULL, keep_own, NULL), 0);
		assert_int_equal(pthread_join(native, NULL), 0);
		if (i == 10)
			mappings = count_mappings();
	}
	assert_in_range(count_mappings(), 1, mappings + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_processors),
		cmocka_unit_test(test_embedded),
		cmocka_unit_test(test_reloaded),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_optional),
		cmocka_unit_test(test_no_names),
		cmocka_unit_test(test_native_stacks),
		cmocka_unit_test(test_bus),
		cmocka_unit_test(test_leap),
		cmocka_unit_test(test_guards),
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_handlers),
		cmocka_unit_test(test_repaired),
		cmocka_unit_test(test_jump),
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_bus_error),
		cmocka_unit_test(test_astray),
		cmocka_unit_test(test_alternate),
	};

	told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("overflow", tests, NULL, NULL);
}
