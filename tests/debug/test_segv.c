/* SPDX-License-Identifier: MIT */
/*
 * test_segv.c: with uoverflow_install(), faults and signals that are no overflow are
 * what they were: defaults, handlers, repairs. Each fault is that of a child.
 */
#define _GNU_SOURCE             /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../debug/uoverflow.h"
#include "../help/child.h"

static char *volatile nowhere = (char *)64;     /* not NULL, for sanitizers */

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

/* As a garbage collector does. */
static void unprotect(int signo, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)context;
	count(signo);
	TEST_EQUAL(mprotect((void *)((uintptr_t)info->si_addr & -page), page,
			    PROT_READ | PROT_WRITE), 0);
}

/* What a thread does, with handlers of SIGSEGV and SIGBUS from before the install. */
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

static void install_after(const struct fault *f)
{
	sigaction(SIGSEGV, &f->f_before, NULL);
	sigaction(SIGBUS, &f->f_before_bus, NULL);
	TEST_EQUAL(uoverflow_install(), 0);
}

static void on_processor(void *arg)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	void *s;

	install_after(arg);
	s = make(&conf);
	run_to_end(s, fault_in_thread, arg);
	TEST_EQUAL(over->o_destroy(s), 0);
}

static void on_no_dispatcher(void *arg)
{
	install_after(arg);
	fault_in_thread(arg);
}

/* Without a handler before, the status is the same, and there is no message. */
TEST(test_default)
{
	struct fault f = { .f_func = fault };

	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
	assert_killed(in_child(on_no_dispatcher, &f), SIGSEGV);
	assert_silent();
	f.f_before.sa_handler = SIG_IGN;        /* of no effect on faults */
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
}

TEST(test_handlers)
{
	struct fault f = { .f_func = fault, .f_before = { .sa_handler = count_and_die } };

	skip_on_valgrind();
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

/* The handler repairs the page and returns; the access then succeeds. */
TEST(test_repaired)
{
	struct fault f = { .f_func = fault, .f_arg = protected_page(), .f_twice = true };

	skip_on_valgrind();
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

/* Handlers that jump out, again and again; and one with SA_RESETHAND. */
TEST(test_jump)
{
	struct fault f = { .f_func = fault_and_jump, .f_twice = true };

	skip_on_valgrind();
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

TEST(test_sent)
{
	static const int signals[] = { SIGSEGV, SIGBUS };

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

/* Behind the end of a file. */
static void fault_behind_end(void *fd)
{
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *(int *)fd, 0);

	TEST_TRUE(map != MAP_FAILED);
	fault(map);
}

TEST(test_bus_error)
{
	FILE *empty = tmpfile();
	int fd;
	struct fault f = { .f_func = fault_behind_end, .f_arg = &fd };

	skip_on_valgrind();
	assert_non_null(empty);
	fd = fileno(empty);
	assert_killed(in_child(on_processor, &f), SIGBUS);
	assert_silent();
	f.f_before_bus.sa_handler = count_and_die;
	assert_survived(in_child(on_processor, &f));
	assert_int_equal(told->t_signo, SIGBUS);
	fclose(empty);
}

/* Below the stack of another thread, or a vacant one: by a wrong pointer. */
static void fault_at_another(void *arg)
{
	struct usched_stack *k = ustack_self()->u_stack->k_ring;

	(void)arg;
	TEST_TRUE(k != ustack_self()->u_stack);
	fault(k->k_bottom - k->k_size - 1);
}

TEST(test_astray)
{
	struct fault f = { .f_func = fault_at_another };

	if (!test_has_stacks())
		skip();
	assert_killed(in_child(on_processor, &f), SIGSEGV);
	assert_silent();
}

int main(void)
{
	child_begin();
	return over_all(OVER_PROCS);
}
