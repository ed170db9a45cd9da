/* SPDX-License-Identifier: MIT */
/*
 * context.h: threads of getcontext(), makecontext() and swapcontext(), the calls that
 * POSIX once had. A swapcontext() also sets the signal mask, by a system call that takes
 * most of its time.
 *
 * A thread's record lies at the top of its stack, in the page of its first frame. Free
 * stacks are kept for the next threads.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

#include "../c/peer.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_SIZE = 16 << 10 };

struct thread {
	ucontext_t context;
	size_t number;                  /* that it gives */
	int ended;
	struct thread *next_free;
};

static ucontext_t resumer;              /* resumed the running one */
static struct thread *running, *unused;

/* Once for a stack: makecontext() may be called again on its context. */
__attribute__((noinline)) static void init(struct thread *t)
{
	if (getcontext(&t->context))
		fail("getcontext");
	t->context.uc_stack.ss_size = (size_t)STACK_SIZE - sizeof *t;
	t->context.uc_stack.ss_sp = (char *)t - t->context.uc_stack.ss_size;
	t->context.uc_link = &resumer;
}

static inline struct thread *new_stack(void)
{
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE,
			   -1, 0);
	struct thread *t;

	if (stack == MAP_FAILED)
		fail("not enough memory");
	t = (struct thread *)(stack + STACK_SIZE) - 1;
	init(t);
	return t;
}

static inline struct thread *create(void (*func)(void), size_t number)
{
	struct thread *t = unused;

	if (t)
		unused = t->next_free;
	else
		t = new_stack();
	t->number = number;
	t->ended = 0;
	makecontext(&t->context, func, 0);
	return t;
}

static inline void drop(struct thread *t)
{
	t->next_free = unused;
	unused = t;
}

static inline size_t resume(struct thread *t)
{
	running = t;
	if (swapcontext(&resumer, &t->context))
		fail("swapcontext");
	return t->number;
}

static inline void yield(size_t number)
{
	struct thread *me = running;

	me->number = number;
	if (swapcontext(&me->context, &resumer))
		fail("swapcontext");
}

#endif
