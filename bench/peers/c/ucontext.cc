// SPDX-License-Identifier: MIT
//
// Threads of getcontext(), makecontext() and swapcontext(), the calls that POSIX once
// had. A swapcontext() also sets the signal mask, by a system call that takes most of
// its time.
//
// A thread's record lies at the top of its stack, in the page of its first frame: the
// one page that is in memory. Guard pages would limit the threads to some 32,000, as
// each makes a mapping of its stack. Free stacks are kept for the next threads.
#include "give.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

enum { STACK_SIZE = 16 << 10 };

struct record {
	ucontext_t context;
	size_t number;                  // that it gives
	size_t *ended;
	record *next_free;
};

static ucontext_t resumer;              // resumed the running one
static record *running, *unused;

static void yield(record *me)
{
	if (swapcontext(&me->context, &resumer))
		fail("swapcontext");
}

static void count()
{
	record *me = running;

	for (;; me->number++)
		yield(me);
}

static void block()
{
	record *me = running;

	yield(me);
	++*me->ended;
}

// Once for a stack: makecontext() may be called again on its context.
[[gnu::noinline]] static record *new_stack()
{
	void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE
			   | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	if (stack == MAP_FAILED)
		fail("not enough memory");
	record *r = static_cast<record *>(static_cast<void *>(
				static_cast<char *>(stack) + STACK_SIZE)) - 1;
	if (getcontext(&r->context))
		fail("getcontext");
	r->context.uc_stack.ss_size = STACK_SIZE - sizeof *r;
	r->context.uc_stack.ss_sp = stack;
	r->context.uc_link = &resumer;
	return r;
}

class thread {
	record *me = unused;

	thread(void (*f)(), size_t n, size_t *ended)
	{
		if (me)
			unused = me->next_free;
		else
			me = new_stack();
		me->number = n;
		me->ended = ended;
		makecontext(&me->context, f, 0);
	}
public:
	static constexpr size_t bytes = 4096 + sizeof(record *);

	explicit thread(size_t n) : thread(count, n, nullptr) {}
	explicit thread(size_t *ended) : thread(block, 0, ended) {}
	thread(thread &&other) : me(std::exchange(other.me, nullptr)) {}
	~thread()
	{
		if (me)
			me->next_free = std::exchange(unused, me);
	}
	size_t next()
	{
		running = me;
		if (swapcontext(&resumer, &me->context))
			fail("swapcontext");
		return me->number;
	}
	size_t first() { return next(); }
};

int main(int argc, char **argv)
{
	return run<thread>(argc, argv);
}
