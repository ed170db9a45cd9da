/* SPDX-License-Identifier: MIT */
/*
 * watch.h: tells sanitizers and Valgrind of switches and copies, because these tools
 * follow SP and frames on a stack, and know nothing of stacks that are copied. Private to
 * usched.c and arch/. uimage.c tells LeakSanitizer where to look for pointers.
 *
 * AddressSanitizer keeps a byte of shadow for eight bytes of memory, and marks the memory
 * around locals there as poisoned. So an image has the frames, and the shadow of the
 * frames behind them. The shadow of vacated frames is cleared:
 *
 * 	evict   copy the shadow of [top, bottom) to the image; clear it; copy the frames
 * 	load    copy the frames, to memory that is not poisoned; copy the shadow back
 * 	vacate  after a visit: clear the shadow, as the image still has frames and shadow
 *
 * To find uses after return, AddressSanitizer gives each fiber a fake stack for locals.
 * Each thread is a fiber. ThreadSanitizer has fibers, too, and orders the fibers of a
 * native thread. Both sanitizers are told when SP has moved, and do not see the code that
 * moves SP. MemorySanitizer follows copies by itself. UndefinedBehaviorSanitizer does not
 * look at stacks.
 *
 * Requests to Valgrind are sequences of instructions that do nothing without Valgrind
 * (arch/arch.h). If SP changes, Valgrind thinks that frames come or go, unless SP moves
 * between two known stacks. After such a move Valgrind must be told which memory is in
 * use, though nothing is written there yet.
 */
#ifndef USCHED_WATCH_H
#define USCHED_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "../../arch/arch.h"
#include "../../usched.h"

#if USCHED_HAS(safe_stack)
#error "-fsanitize=safe-stack keeps locals on a second stack: not copied"
#endif
#if USCHED_HAS(shadow_call_stack)
#error "-fsanitize=shadow-call-stack keeps a second stack: not copied"
#endif
#if defined(__SANITIZE_HWADDRESS__) || USCHED_HAS(hwaddress_sanitizer)
#error "hwaddress tags the memory of locals: not copied, use -fsanitize=address"
#endif
#if USCHED_HAS(memtag_stack)
#error "-fsanitize=memtag tags the memory of locals: not copied"
#endif

/*
 * For functions that are not instrumented, because they are entered as one fiber and left
 * as another, or read poisoned memory.
 */
#if defined(USCHED_TSAN) && defined(__clang__)
#define UNWATCHED __attribute__((disable_sanitizer_instrumentation))
#elif defined(USCHED_TSAN)
#define UNWATCHED __attribute__((no_sanitize_thread))
#elif defined(USCHED_ASAN)
#define UNWATCHED __attribute__((no_sanitize_address))
#else
#define UNWATCHED
#endif

#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
enum { WATCHED = 1 };
#else
enum { WATCHED = 0 };
#endif

/* Returns the bytes of an image for `deep' bytes of frames. */
static inline size_t watch_image(size_t deep)
{
#ifdef USCHED_ASAN
	return deep + deep / 8 + 1;
#else
	return deep;
#endif
}

#if defined(USCHED_ASAN)
#include "asan.h"
#elif defined(USCHED_TSAN)
#include "tsan.h"
#else
#define watch_run(s)        ((void)(s))
#define watch_launch(s, u)  ((void)(s), (void)(u))
#define watch_arrive(s)     ((void)(s))
#define watch_release(s, u) ((void)(s), (void)(u))
#endif

/* Notes that the records `u', which runs, and `c' have exchanged frames. */
static inline void watch_exchange(struct usched *s, struct ustack *u, struct ustack *c)
{
#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
	struct usched_fiber fiber = u->u_fiber;

	u->u_fiber = c->u_fiber;
	c->u_fiber = fiber;
	s->s_followed = &c->u_fiber;
#else
	(void)s;
	(void)u;
	(void)c;
#endif
}

/* Only AddressSanitizer has a shadow to keep. */
#ifndef USCHED_ASAN
#define watch_landed(s) ((void)(s))
#define watch_loaded(u) ((void)(u))
#define watch_evict(u)  ((void)(u))
#define watch_vacate(u) ((void)(u))
#endif

/* Requests to Valgrind and memcheck, from their manuals. */
enum {
	WATCH_VALGRIND_STACK       = 0x1501,
	WATCH_VALGRIND_STACK_END   = 0x1502,
	WATCH_MEMCHECK_UNDEFINED   = 0x4d430001,
	WATCH_MEMCHECK_DEFINED     = 0x4d430002,
	WATCH_BELOW          = 256,     /* bytes below a top that a call first touches */
};

static inline uintptr_t watch__ask(uintptr_t request, uintptr_t a, uintptr_t b)
{
	const uintptr_t words[6] = { request, a, b };

	return usched__valgrind(words);
}

static inline void watch_stack(struct usched_stack *k)
{
	uintptr_t bottom = (uintptr_t)k->k_bottom;

	k->k_memcheck = (uint32_t)watch__ask(WATCH_VALGRIND_STACK, bottom - k->k_size,
					     bottom);
}

static inline void watch_stack_end(const struct usched_stack *k)
{
	if (k->k_memcheck)
		watch__ask(WATCH_VALGRIND_STACK_END, k->k_memcheck, 0);
}

/* Does the work of watch_place() if memcheck runs. */
static __attribute__((noinline, unused))
void watch__place(const struct usched_stack *k, const char *top)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t low = (uintptr_t)top - WATCH_BELOW, bottom = (uintptr_t)k->k_bottom;

	if (bottom - here > k->k_size)
		watch__ask(WATCH_MEMCHECK_UNDEFINED, low, bottom - low);
}

/* Notes that memory from `top' up will be used, after a switch from another stack. */
static inline void watch_place(const struct usched_stack *k, const char *top)
{
	if (__builtin_expect(k->k_memcheck > 0, 0))
		watch__place(k, top);
}

/* Makes memcheck take a copied word of a stack as written, even if nothing wrote it. */
static inline void watch_copied(const struct usched_stack *k, const uintptr_t *copy)
{
	if (__builtin_expect(k->k_memcheck > 0, 0))
		watch__ask(WATCH_MEMCHECK_DEFINED, (uintptr_t)copy, sizeof *copy);
}

#endif /* USCHED_WATCH_H */
