/* SPDX-License-Identifier: MIT */
/*
 * check.h: finds the thread in whose frames an address is. In builds with USCHED_CHECK
 * also checks two kinds of pointers: pointers passed to calls of usync.h, unet.h and
 * uoffload.h; and pointers that a thread gives to another thread, as the argument of a
 * new thread or a value of a channel. So mistakes are found where they are made.
 * usched(7) says which pointers are wrong. Private. In other builds check() only tells a
 * simulation of calls.
 *
 * An object that threads share must not be on the stack of any thread, not even of the
 * caller, because that thread may be evicted while waiting. Then others find another
 * thread's frames at that address. The same holds for what another thread gets: the
 * argument of a new thread, or a value of a channel as large as a pointer. A buffer may
 * be on the caller's own stack, since only the caller, while running, uses the buffer.
 *
 * check_inside() looks through the first words of what another thread gets. The kernel
 * copies these words, so that unreadable words are left out, and no sanitizer reports
 * words that were never written.
 */
#ifndef USCHED_CHECK_H
#define USCHED_CHECK_H

#include <stddef.h>
#include <errno.h>
#include <stdint.h>

#include "../../arch/arch.h"
#include "../core/core.h"
#include "../core/direction.h"
#include "sim.h"

/* The place of an address among the stacks of the dispatcher that runs here. */
enum usched_place {
	USCHED_ELSEWHERE,       /* on none of the stacks, or outside of usched_run() */
	USCHED_MINE,            /* in the frames of the thread that runs */
	USCHED_THEIRS,          /* in the frames of a blocked thread that is resident */
	USCHED_STALE,           /* on a stack, but in no frames: a thread was evicted, has
				   returned, or has ended */
	USCHED_REMOTE,          /* on a stack of another processor of rr or ll */
};

/*
 *       | bottom          top or SP |        limit |
 *       | the resident's frames     |    stale     |
 *
 * Returns the place of an address with regard to one stack. The end of the native stack
 * is not known, so the limit there is the deepest block so far.
 */
static inline enum usched_place
usched__look(const struct usched *s, const struct usched_stack *k, const void *address,
	     const void *here)
{
	size_t index = stack_index(k->k_bottom, address);       /* wraps if above */
	const struct ustack *u = k->k_resident, *self = usched__runs(s);
	const void *top = !u ? k->k_bottom : u == self ? here : usched__top(u);

	if (index >= k->k_size)
		return USCHED_ELSEWHERE;
	if (index < stack_depth(k->k_bottom, top))
		return u == self ? USCHED_MINE : USCHED_THEIRS;
	if (k == &s->s_native && index >= s->s_stats.st_deepest)
		return USCHED_ELSEWHERE;
	return USCHED_STALE;
}

/*
 * Returns the place of an address among the stacks of the innermost dispatcher, if
 * dispatchers are nested. Sets *whose, unless `whose' is NULL, to the thread that MINE or
 * THEIRS means, else to NULL. An address on the native stack is ELSEWHERE if it is deeper
 * than any thread has blocked, and not in the running thread's frames. `here' is close to
 * the stack pointer of the caller.
 */
static inline enum usched_place
usched__onstack(const void *address, struct ustack **whose, const void *here)
{
	const struct usched *s = usched__here();
	enum usched_place place = USCHED_ELSEWHERE;
	const struct usched_stack *k, *at = NULL;

	if (s->s_current) {                     /* the stack may be a coroutine's */
		at = usched__runs(s)->u_stack;
		place = usched__look(s, at, address, here);
	}
	for (k = s->s_victim; k
	     && place == USCHED_ELSEWHERE; k = usched__next_stack(s, k)) {
		at = k;
		if (__atomic_load_n(&k->k_sched, __ATOMIC_RELAXED) == s)
			place = usched__look(s, k, address, here);
		else if (stack_index(k->k_bottom, address) < k->k_size)
			place = USCHED_REMOTE;  /* the stack has left with its thread */
	}
	if (whose)
		*whose = place == USCHED_MINE ? s->s_current
			: place == USCHED_THEIRS ? at->k_resident : NULL;
	if (place == USCHED_ELSEWHERE && s->s_has_stack
	    && s->s_has_stack(s, address) == 1)
		place = USCHED_REMOTE;
	return place;
}

enum { CHECK_OBJECT, CHECK_BUFFER, CHECK_ARGUMENT, CHECK_VALUE };

#ifdef USCHED_CHECK
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CHECKING = 1 };
enum {
	CHECK_LOOK_INSIDE = 64,         /* words that are looked through */
	CHECK_TOLD_PLACES = 64,         /* calls that are noted as reported */
};
#define CHECK_ITS_BLOCK SIZE_MAX        /* a size: that of the block at the address */

/*
 * In uwait.c. Reports a deadline before the start of the program, because such a deadline
 * is probably a duration. Reports only once.
 */
void uwait__check_deadline(int64_t deadline) __attribute__((visibility("hidden")));

/* Checks a pointer. Not inlined, so that its frame is below the frames of all callers. */
__attribute__((noinline, unused))
static void check(const void *pointer, int whose, const char *call)
{
	static const char *const places[] = {
		[USCHED_MINE]    = "in the frames of the thread that calls",
		[USCHED_THEIRS]  = "in the frames of another thread",
		[USCHED_STALE]   = "on a stack, in no thread's frames",
		[USCHED_REMOTE]  = "on a stack of another processor",
	};
	static const char *const kinds[] = {
		[CHECK_OBJECT] = "shared object", [CHECK_BUFFER] = "buffer",
		[CHECK_ARGUMENT] = "the new thread's argument",
		[CHECK_VALUE] = "the value",
	};
	struct ustack *u;
	enum usched_place place;

	if (OBSERVER(ob_called))
		OBSERVER(ob_called)(call);
	place = usched__onstack(pointer, &u, __builtin_frame_address(0));
	if (place == USCHED_ELSEWHERE || (whose == CHECK_BUFFER && place == USCHED_MINE))
		return;
	if (u && u->u_stack->k_stays & USCHED_ALONE)    /* own stack: never evicted */
		return;
	fprintf(stderr, "usched: %s: %s %p is %s", call, kinds[whose], pointer,
		places[place]);
	if (u && OBSERVER(ob_introduce)) {
		fprintf(stderr, ", ");
		OBSERVER(ob_introduce)(u);
	}
	fprintf(stderr, ": threads move; put it on the heap, or make it static\n");
	abort();
}

/* Copies up to `n' words. Returns how many were readable. */
static inline size_t check__read(uintptr_t from, uintptr_t *words, size_t n)
{
	struct iovec to = { words, n * sizeof *words }, at = { (void *)from, to.iov_len };
	int error = errno;
	long got = syscall(SYS_process_vm_readv, (long)getpid(), &to, 1L, &at, 1L, 0L);

	errno = error;
	return got > 0 ? (size_t)got / sizeof *words : 0;
}

/*
 * Returns how many words a block from glibc's malloc(3) has; 0: `address' is no such
 * block. The word before a block is the size, with three flags. While the block is in
 * use, flag 0 is set in the word before the next block.
 */
static inline size_t check__block(uintptr_t address)
{
	const size_t word = sizeof address;
	uintptr_t size = 0, next = 0;

	if (address < 4096 || address % (2 * word))
		return 0;
	check__read(address - word, &size, 1);
	size &= ~(uintptr_t)7;
	if (size >= 4 * word && size % (2 * word) == 0)
		check__read(address - word + size, &next, 1);
	return next & 1 ? size / word - 1 : 0;
}

/*
 * Reports a word that points into frames, among the `size' bytes at `from'. Reports once
 * for each `where'. Without `deep', also searches the blocks to which the words point.
 */
__attribute__((unused))
static void check_words(uintptr_t from, size_t size, bool deep, const char *call,
			const void *where)
{
	static const void *told[CHECK_TOLD_PLACES];
	const void **last = &told[(uintptr_t)where % CHECK_TOLD_PLACES];
	const struct usched *s = usched__here();
	uintptr_t words[CHECK_LOOK_INSIDE] = { 0 };
	struct ustack *u;
	size_t n;

	if (!s->s_current)
		return;
	n = size == CHECK_ITS_BLOCK ? check__block(from) : size / sizeof *words;
	n = check__read(from, words, n < CHECK_LOOK_INSIDE ? n : CHECK_LOOK_INSIDE);
	for (size_t i = 0; i < n; i++) {
		const void *p = (const void *)words[i];

		if (!deep)
			check_words(words[i], CHECK_ITS_BLOCK, true, call, where);
		if (s->s_stacks && s->s_has_stack && !s->s_has_stack(s, p))
			continue;                       /* faster than a search */
		usched__onstack(p, &u, __builtin_frame_address(0));
		for (size_t k = 0; u && k < n; k++)     /* the block is a struct uco */
			if (words[k] == (uintptr_t)u->u_stack)
				return;
		if (!u || u->u_stack->k_stays & USCHED_ALONE
		    || __atomic_exchange_n(last, where, __ATOMIC_RELAXED) == where)
			continue;
		fprintf(stderr, "usched: %s: word %u of what is given%s, %p, is in the "
			"frames of ", call, (unsigned)i, deep ? " points to" : "", p);
		if (OBSERVER(ob_introduce))
			OBSERVER(ob_introduce)(u);
		fprintf(stderr, ": threads move, if that word is a pointer\n");
	}
}

/* Checks the `size' bytes at `value' that a call at `where' gives to another thread. */
#define check_inside(value, size, call, where) \
	check_words((uintptr_t)(value), size, false, call, where)

#else
enum { CHECKING = 0 };

#define uwait__check_deadline(deadline) ((void)(deadline))

/* Tells a simulation of the call. The call is a step if the program itself makes it. */
__attribute__((always_inline))
static inline void check(const void *pointer, int whose, const char *call)
{
	if (SIMULATED && whose == CHECK_OBJECT)
		sim__called(pointer, call, __builtin_return_address(0));
	else if (SIMULATED && whose == CHECK_BUFFER)
		sim__waits(call, __builtin_return_address(0));
}

#define check_inside(value, size, call, where) ((void)(where))
#endif

#endif /* USCHED_CHECK_H */
