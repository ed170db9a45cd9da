/* SPDX-License-Identifier: MIT */
/*
 * usched.c: the dispatcher.
 *
 * THE IDEA. A blocked thread is its frames, and frames are bytes. Threads run on one
 * stack, or a few, all from the same bottom. When a thread blocks, its frames stay where
 * they are until another thread needs the place. Then the frames are copied to the heap,
 * byte for byte. The frames come back to the same addresses, so pointers from frames into
 * frames are right again. So a thread costs the memory of the frames, and nothing is
 * copied as long as the stacks suffice for the running threads.
 *
 * A stack, through the life of threads A and B that share it (high addresses at the top,
 * SP marked <):
 *
 *          launch A      A blocks      B launched    B blocks      A resumed
 *         (A is new)                  (evicts A)                  (evicts B)
 *
 *  bottom +--------+    +--------+    +--------+    +--------+    +--------+
 *         |        |<   | A A A  |    | B B    |    | B B    |    | A A A  |
 *         |        |    | A A A  |    |        |<   | B  top |    | A A A  |
 *         |        |    | A  top |    |        |    | s_next |    | A      |<
 *         |        |    | s_next |<   |        |    |        |<   |        |
 *         :        :    :        :    :        :    :        :    :        :
 *
 * s_next runs below the top of the blocking thread, and so does all code here that
 * decides and copies. When B ends, its frames are not kept. When s_next has no thread to
 * run, the dispatcher goes back to usched_run(), whose frame ("home") is above every
 * bottom on the native stack:
 *
 *   native stack:  | caller | usched_run | home | bottom: threads ... |
 *
 * If stacks were added, threads run only on these. Each added stack has its struct
 * usched_stack above the bottom.
 *
 * Loading the frames of A where B runs is the delicate moment, because the code that
 * copies needs a stack, too, and a signal handler may need the stack at any time. So SP
 * first moves to A's top, below all that will be written. Only then the copying starts.
 * The functions that move SP are in arch/, see arch/arch.h. They ask this file where to.
 *
 * THE SWITCH. Most threads block in a statement of assembly that the compiler has put
 * into their code (uswitch.h), or in a function that does the same (arch/). Both save
 * four words in the thread's record, and load the same four words of the next thread.
 * usched__go() below is called only if frames have to move, or s_next has to choose.
 *
 * Three things belong to a native thread and are exchanged at a switch, so that each
 * thread has its own. errno is saved in the record. The address of errno is the same
 * while usched_run() runs, so usched_run() looks the address up, once (s_errno). C++'s
 * exceptions in flight are two words, most often zero. Floating point control words
 * matter only if a thread has some of its own.
 *
 * A thread may have a TLS block of its own, which then has its errno and exceptions. Its
 * frames keep the address of the block, so the thread sets the block when it goes on.
 * Until then the code here runs on the block of the thread that ran before.
 *
 * A switch looks at the two words to which s_caught points. Unless both are zero, the
 * switch goes the long way: switch_caught() keeps exceptions and control words in its
 * frame meanwhile. In most cases s_caught points to the exceptions. It points to
 * `all_long' while a thread with own control words runs, while there are hooks, and in
 * builds that look at each switch. With s_control_each it points to `look_at_words': then
 * a switch leaves out switch_caught() if no exceptions are in flight, and the control
 * words are those of the native thread.
 *
 * RULES, cited in the code:
 *
 *  R1  A thread always runs at the same addresses: on the stack where the thread was
 *      launched.
 *  R2  Nothing is copied when a thread blocks. The thread stays resident. It is evicted
 *      in two cases only: if another thread must run on the same stack; and if
 *      usched_run() returns, because then the place on the native stack is lost.
 *  R3  s_next runs on the blocking thread's stack, below the top. If s_next returns the
 *      same thread, nothing moved and ustack_block() returns.
 *  R4  Eviction cannot fail: before s_next is called, each thread that may be evicted
 *      has an image with room for its frames. Reserving the image may fail. Then the
 *      thread does not block, and nothing has changed.
 *  R5  While bytes of a stack are written, SP is below these bytes, and below all bytes
 *      that are still needed.
 *  R6  A thread that has ended is never evicted. The image goes back through s_free, and
 *      then s_done is called. Before that, the record must not be freed.
 *  R7  At first the one stack is the native one. Added stacks replace the native stack.
 *      A new thread takes a vacant stack if there is one, preferably one on which no
 *      thread lives. So nothing is copied while the stacks suffice for all threads.
 *      Otherwise threads share the first 64 stacks. These are so few that what is copied
 *      stays in the cache. Each switch costs at most one eviction and one load. A thread
 *      on any further stack is alone there, is never evicted, and needs no image.
 *
 * REJECTED: copying at each block (most copies are never needed); loading only the upper
 * frames and the rest on return (callees hold pointers into their callers' frames);
 * moving a stack to other addresses (the same); arrays or alloca() to make gaps between
 * the dispatcher's frames and the threads' frames (compilers rearrange them, and signals
 * overwrite them); using the native stack beside added ones (that is one stack more, but
 * usched_run() could never be called at another depth).
 *
 * LIMITS. Threads block at most 1 GiB deep, or 64 MiB on the native stack. They are tied
 * to addresses, and so, on the native stack, to the native thread. Shadow stacks (CET,
 * GCS) are refused. Destructors do not run in ustack_abort().
 *
 * This file uses no malloc, no pthread and no stdio. It needs memcpy(), memset(), errno,
 * and the state of C++'s exceptions in programs that have C++.
 */
#include "src/core/dispatch.h"

#include <errno.h>
#include <string.h>

#include "arch/offsets.h"
#include "src/core/stress.h"

enum {
	COPY_SHORT   = 512,             /* bytes: a longer copy is one memcpy() */
	DEEP_MIN     = 1024,            /* bytes: evictions shrink only larger images */
	DEEP_RATIO   = 4,               /* and only images so many times too large */
	RESERVE_MORE = 128,             /* bytes: calls that block may have deeper frames
					   than ustack_reserve() */
#ifdef __OPTIMIZE__
	RESERVE_LESS = ARCH_BLOCKS,     /* the same for usched__reserve() */
#else
	RESERVE_LESS = 512,
#endif
	CAUGHT_FRAME = WATCHED ? 1536 : 384,    /* bytes: frames of the long way */
	VACATED      = 0xdb,            /* with s_stress: overwrites vacated frames */

	/* Bytes of an image from s_alloc beyond u_deep. The flags in the low bits of
	   u_deep make it up to 7 too large. That matters only with 32 bits, where a stack
	   pointer need not be a multiple of 8. */
	SLACK        = sizeof(void *) < DISPATCH_DEEP_UNIT ? DISPATCH_DEEP_UNIT : 0,
};

_Static_assert(ARCH_LOAD == OP_LOAD && ARCH_LAUNCH == OP_LAUNCH, "arch/offsets.h");
#ifdef S_FUNC
_Static_assert(offsetof(struct usched, s_func) == S_FUNC
		   && offsetof(struct usched, s_arg) == S_ARG
		   && offsetof(struct usched, s_current) == S_CURRENT
		   && offsetof(struct usched, s_stats.st_switches) == S_SWITCHES
		   && offsetof(struct usched, s_errno) == S_ERRNO
		   && offsetof(struct usched, s_caught) == S_CAUGHT
		   && offsetof(struct usched_caught, cg_uncaught) == CAUGHT_UNCAUGHT
		   && offsetof(struct usched_stack, k_bottom) == K_BOTTOM
		   && offsetof(struct usched_stack, k_sched) == K_SCHED
		   && offsetof(struct ustack, u_top) == U_TOP
		   && offsetof(struct ustack, u_stack) == U_STACK
		   && offsetof(struct ustack, u_pc) == U_PC
		   && offsetof(struct ustack, u_fp) == U_FP
		   && offsetof(struct ustack, u_bp) == U_BP
		   && offsetof(struct ustack, u_func) == U_FUNC
		   && offsetof(struct ustack, u_deep) == U_DEEP
		   && offsetof(struct ustack, u_errno) == U_ERRNO, "arch/offsets.h");
#endif
_Static_assert(sizeof(void *) != 8 || WATCHED
		   || offsetof(struct usched, s_errno) % 64 == 0,
	       "what each switch needs of a dispatcher is one cache line");
_Static_assert(sizeof(void *) != 8 || WATCHED || offsetof(struct ustack, u_image) == 64,
	       "a hand-over touches one cache line of a record");

#define NATIVE_MAX ((uint32_t)64 << 20) /* bytes: the native stack counts as no deeper */

const struct ustack usched__none = { .u_top = NULL };

struct usched_observer usched__observer;

/* usched__current of native threads on which no dispatcher runs. */
static struct usched no_dispatcher = { .s_inside = DISPATCH_NONE };

/* Values of s_caught. The first is for programs without C++. The second makes all
   switches go the long way. */
static const struct usched_caught none_caught = { .cg_uncaught = 0 };
static const struct usched_caught all_long = { .cg_uncaught = 1 };

/* The value of s_caught with s_control_each, unless something else needs the long way.
   The content differs from all_long's, since linkers may merge equal objects. */
static const struct usched_caught look_at_words = { .cg_uncaught = 2 };

/* The value of s_caught while threads have TLS blocks, unless something else needs the
   long way. */
static const struct usched_caught own_blocks = { .cg_uncaught = 3 };

/* What s_calls.s_mail points to if the scheduler has no mail. */
static const usched_mail no_mail = 0;

/* A function of C++'s run-time library; NULL if the program has no C++. */
typedef struct usched_caught *globals_fn(void);
globals_fn __cxa_get_globals __attribute__((weak));

/* A function of libgcc; not NULL if code of the program was compiled with -fsplit-stack.
   No macro tells of this option. */
void __splitstack_getcontext(void *context[10]) __attribute__((weak));

/* The dispatcher that runs on this native thread. LTO does not see the assembly in other
   files, so attribute `used' keeps the object. */
__attribute__((used)) __thread struct usched *usched__current = &no_dispatcher;

extern inline struct usched *ustack_sched(const struct ustack *u);
extern inline int ustack_switch(struct ustack *u);
extern inline void (*ustack_func(const struct ustack *u))(void *);
#ifdef USCHED_HERE_INLINE
extern inline struct usched *usched__here(void);
#else
BY_THREADS struct usched *usched__here(void)
{
	return usched__current;
}
#endif

/* ---- What belongs to the native thread ---- */

/*
 * C++'s headers declare that __cxa_get_globals() returns the same each time. With -flto
 * compilers rely on that here, too. But between two calls the thread may move to another
 * native thread, so the function is hidden from compilers.
 */
struct usched_caught *usched__caught(void)
{
	globals_fn *get = __cxa_get_globals;

	__asm__ volatile("" : "+r"(get));
	return get ? get() : NULL;
}

const struct usched_caught *usched__look_at(const struct usched *s)
{
	const struct usched_caught *look = s->s_block ? NULL : usched__caught();

	if (s->s_hook || OBSERVER(ob_blocks) || WATCHED || IS_CHECKED
	    || usched__probe() != 1)
		return &all_long;
	if (s->s_block)
		return &own_blocks;
	if (s->s_owns & USCHED_EACH)    /* another dispatcher may have another s_first */
		return s->s_moves ? &all_long : &look_at_words;
	return look ? look : &none_caught;
}

void usched__own_control(struct usched *s, uint64_t words)
{
	if (s->s_owns & USCHED_EACH && words == s->s_first)
		return;
	s->s_control = usched__control();
	usched__set_control(words);
	s->s_owns |= USCHED_OWNS;
	s->s_caught = &all_long;
}

void usched__share_control(struct usched *s)
{
	if (usched__control() != s->s_control)
		usched__set_control(s->s_control);
	s->s_owns &= ~USCHED_OWNS;
	s->s_caught = usched__look_at(s);
}

/*
 * In builds with USCHED_CHECK: finds a thread that has changed the shared control words.
 * Called when the thread blocks, ends, or gets control words of its own, before other
 * threads run with the changed words.
 */
void usched__check_control(const struct usched *s)
{
	if (!IS_CHECKED || !s->s_current || s->s_owns & (USCHED_OWNS | USCHED_EACH)
	    || usched__control() == s->s_first)
		return;
	DISPATCH_CHECK(s->s_changed);   /* NULL: no function reports the mistake */
	s->s_changed(s, s->s_current);
}

/* ---- TLS blocks ---- */

APART static void begin_blocks(struct usched *s)
{
	s->s_block = usched__block();
	s->s_current_at = (char *)&usched__current - s->s_block;
	if (!(s->s_owns & USCHED_OWNS))
		s->s_caught = usched__look_at(s);
}

/* libc's variables are at the same place in each block. */
static inline void set_block(struct usched *s, char *block)
{
	char *now = usched__block();
	int *error = (int *)(void *)(block + ((char *)s->s_errno - now));

	if (!s->s_block)
		begin_blocks(s);
	if (block == now)
		return;
	*error = *s->s_errno;
	*(struct usched **)(void *)(block + s->s_current_at) = s;
	s->s_errno = error;
	usched__use_block(block);
}

void usched__set_block(struct usched *s, char *block)
{
	set_block(s, block);
}

/* A thread with a block goes on at another dispatcher than before. */
APART static void adopt(struct usched *s, char *block)
{
	if (!s->s_block)
		begin_blocks(s);
	OBSERVER(ob_adopt)(block, s->s_block);
}

/* ---- Hooks ---- */

void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other)
{
	struct usched_hook *h, *next;

	for (h = s->s_hook; h; h = next) {
		next = h->ho_next;
		h->ho_event(h, event, u, other);
	}
}

/* ---- Stacks ---- */

void usched__vacate(struct usched *s, struct usched_stack *k)
{
	struct usched_stack *prev = s->s_moves && !k->k_shared ? &s->s_vacant_unshared
		: &s->s_vacant, *next;

	if (k->k_threads > 0)
		prev = prev->k_prev;
	next = prev->k_next;
	k->k_resident = NULL;
	k->k_prev = prev;
	k->k_next = next;
	prev->k_next = next->k_prev = k;
}

static void occupy(struct usched_stack *k, struct ustack *u)
{
	if (!k->k_resident)
		usched__unlink(k);
	k->k_resident = u;
}

/*
 * Returns the stack after `k', or NULL after the last. s_victim is followed by the other
 * shared stacks, then by the unshared stacks, then by own stacks. k_stays may be read
 * only by the dispatcher that has the stack now, which lists own stacks.
 */
struct usched_stack *usched__next_stack(const struct usched *s,
					const struct usched_stack *k)
{
	struct usched_stack *next;

	if (GET(k->k_sched) == s && k->k_stays & USCHED_ALONE) {
		next = k->k_next;
	} else {
		next = k->k_ring == s->s_victim ? s->s_unshared : k->k_ring;
		if (!next)
			next = s->s_new.k_next;
	}
	return next == &s->s_new ? NULL : next;
}

/* ---- Images ---- */

void usched__count_depth(struct usched *s, size_t deep)
{
	if (deep > s->s_stats.st_deepest)
		DISPATCH_ADD(s->s_stats.st_deepest, deep - s->s_stats.st_deepest);
}

/* Returns the bytes of the image of `u'. */
static size_t capacity(const struct usched *s, const struct ustack *u)
{
	if (u->u_outside)
		return usched__near_room(s) + u->u_image.i_size;
	return DISPATCH_STRESS(s) ? 0 : s->s_room;
}

bool usched__has_room(const struct usched *s, const struct ustack *u, size_t need)
{
	return watch_image(need) + (u->u_outside ? SLACK : 0) <= capacity(s, u);
}

APART void usched__free_image(struct usched *s, struct ustack *u, struct ustack *whose)
{
	struct usched_image image = u->u_image;

	u->u_outside = 0;
	DISPATCH_ADD(s->s_stats.st_images, -(uint64_t)1);
	DISPATCH_ADD(s->s_stats.st_image_bytes, -(uint64_t)image.i_size);
	s->s_calls.s_free(s, whose, image.i_frames, image.i_size);
}

int usched__exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			  size_t deep)
{
	const size_t need = watch_image(deep), near = usched__near_room(s);
	const size_t least = SLACK + (need > near ? need - near : 1);
	size_t size = least;
	void *image;

	if (need <= s->s_room && !DISPATCH_STRESS(s)) {
		usched__drop_image(s, u, whose);
		return 0;
	}
	image = s->s_calls.s_alloc(s, whose, &size);
	if (!image)
		return -ENOMEM;
	if (size < least || size > USCHED_IMAGE_MAX) { /* the scheduler broke a rule */
		s->s_calls.s_free(s, whose, image, size);
		return -ENOMEM;
	}
	usched__drop_image(s, u, whose);
	u->u_image = (struct usched_image){ image, size };
	u->u_outside = 1;
	DISPATCH_ADD(s->s_stats.st_images, 1);
	DISPATCH_ADD(s->s_stats.st_image_bytes, size);
	return 0;
}

/*
 * Reserves an image for the frames down to `top' and for `room' bytes more. If a
 * coroutine runs directly, uco.c first makes the records true. Otherwise a `top' that is
 * not on the thread's stack belongs to a signal handler, for example.
 */
APART static int make_room(struct usched *s, const char *top, size_t room)
{
	struct ustack *u = s->s_current;
	size_t need = stack_depth(u->u_stack->k_bottom, top);
	bool fits;
	int rc;

	if (need > u->u_stack->k_size) { /* `top' is too deep, or on another stack */
		if (s->s_inside->u_top != USCHED_DIRECT)
			return -EFAULT;
		rc = s->s_coroutines->cc_settle(s, 1);
		return rc ? rc : make_room(s, top, room);
	}
	if (!u->u_stack->k_shared)                              /* R7 */
		return 0;
	need = (need + room + DISPATCH_DEEP_UNIT - 1) & -(size_t)DISPATCH_DEEP_UNIT;
	fits = usched__has_room(s, u, need);
	if (fits && !DISPATCH_STRESS(s))
		return 0;
	rc = usched__exchange_image(s, u, u, need < u->u_deep ? u->u_deep : need);
	return fits ? 0 : rc;
}

/* Reserves an image for the running thread, which is deeper than u_deep (R4). */
int usched__fit_top(struct usched *s, char *top)
{
	struct ustack *u = s->s_current;
	int error = *s->s_errno, rc = make_room(s, top, 0);
	size_t deep = stack_depth(u->u_stack->k_bottom, top);

	*s->s_errno = error;
	if (rc)
		return rc;
	usched__set_deep(u, deep);
	usched__count_depth(s, deep);
	return 0;
}

int usched__fits(const struct usched *s, const char *top)
{
	const struct ustack *u = s->s_current;
	size_t need = stack_depth(u->u_stack->k_bottom, top);

	return need <= u->u_stack->k_size       /* else `top' is too deep, or elsewhere */
		&& (DISPATCH_STRESS(s) || !u->u_stack->k_shared /* needs no image */
		    || usched__has_room(s, u, need));
}

/* ---- Evict and load ---- */

/* Copies frames. The frames of a shallow thread are copied in pieces of a fixed size: for
   a few cache lines, memcpy() would spend more time on choosing a way than on copying. */
static inline void copy(char *to, const char *from, size_t n)
{
	if (n <= COPY_SHORT) {
		for (; n >= 64; n -= 64, to += 64, from += 64)
			memcpy(to, from, 64);
		if (n & 32)
			memcpy(to, from, 32), to += 32, from += 32;
		if (n & 16)
			memcpy(to, from, 16), to += 16, from += 16;
		n &= 15;
	}
	if (n > 0)
		memcpy(to, from, n);
}

/* Copy the frames of `u', which has an image from s_alloc, to record and image, and back.
   On the stack the frames are `deep' bytes, from the address `low' on. */
APART static void evict_parts(const struct usched *s, const struct ustack *u,
			      const char *low, size_t deep)
{
	size_t near = usched__near_part(s, deep);

	copy(usched__near(u), low, near);
	copy((char *)u->u_image.i_frames, low + near, deep - near);
}

APART static void load_parts(const struct usched *s, const struct ustack *u, char *low,
			     size_t deep)
{
	size_t near = usched__near_part(s, deep);

	copy(low, usched__near(u), near);
	copy(low + near, (const char *)u->u_image.i_frames, deep - near);
}

/* Copies the frames of the resident of `k' to its image. */
static void evict(struct usched *s, struct usched_stack *k)
{
	struct ustack *u = k->k_resident;
	size_t deep = usched__depth(u);

	DISPATCH_CHECK(u && u->u_func && k->k_shared
		       && watch_image(deep) <= capacity(s, u)); /* R4, R6 */
	if (u->u_deep > DEEP_MIN && deep < u->u_deep / DEEP_RATIO
	    && u->u_tokens != DISPATCH_COROUTINE
	    && usched__exchange_image(s, u, u, deep) == 0)
		usched__set_deep(u, deep);
	usched__count_depth(s, deep);
	DISPATCH_ADD(s->s_stats.st_evictions, 1);
	DISPATCH_ADD(s->s_stats.st_bytes, deep);
	watch_evict(u);
	if (u->u_outside)
		evict_parts(s, u, stack_low(k->k_bottom, u->u_top), deep);
	else
		copy(usched__first_image(u), stack_low(k->k_bottom, u->u_top), deep);
	u->u_top += DISPATCH_AWAY;
}

void usched__evict_blocked(struct usched *s, struct ustack *u)
{
	if (!u || !u->u_stack->k_shared)
		return;
	evict(s, u->u_stack);
	usched__vacate(s, u->u_stack);
	memset(stack_low(u->u_stack->k_bottom, usched__top(u)), VACATED,
	       usched__depth(u));
}

void usched__load_frames(struct usched *s, struct ustack *u)
{
	size_t deep = usched__depth(u);

	u->u_top = usched__top(u);
	occupy(u->u_stack, u);
	DISPATCH_ADD(s->s_stats.st_loads, 1);
	DISPATCH_ADD(s->s_stats.st_bytes, deep);
	if (u->u_outside)
		load_parts(s, u, stack_low(u->u_stack->k_bottom, u->u_top), deep);
	else
		copy(stack_low(u->u_stack->k_bottom, u->u_top), usched__first_image(u),
		     deep);                                             /* R1 */
	watch_loaded(u);
}

/* Loads the frames of s_current, unless the thread is resident. SP is at the top of that
   thread, or below (R5). */
UNWATCHED void usched__load(void)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	if (u && u->u_stack->k_resident != u)
		usched__load_frames(s, u);
	watch_arrive(s);
}

APART struct arch_jump usched__fetch(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = u->u_stack;

	if (k->k_resident)
		evict(s, k);
	watch_place(k, usched__top(u));
	return (struct arch_jump){ u, ARCH_LOAD };
}

/* ---- Launch ---- */

/* The next functions start threads whose first call is not u_func(be_arg). Compilers turn
   the last call of each function into a jump, so the function leaves no frame. */

void usched__wrapped(void *wrap)
{
	struct usched__wrap *w = (struct usched__wrap *)wrap;

	w->wr_begin(w);
}

static void start_other(void *thread)
{
	const struct ustack *u = (const struct ustack *)thread;

	if (u->u_begin.be_fd == USCHED_WRAPPED)
		usched__wrapped(u->u_begin.be_arg);
	else
		((void (*)(int, void *))(void (*)(void))u->u_func)((int)u->u_begin.be_fd,
								   u->u_begin.be_arg);
}

UNWATCHED static void start_watched(void *thread)
{
	const struct ustack *u = (const struct ustack *)thread;

	watch_arrive(ustack_sched(u));
	if (u->u_begin.be_fd != USCHED_PLAIN)
		start_other(thread);
	else
		u->u_func(u->u_begin.be_arg);
}

/* Sets u_deep of the new thread `u'. If WATCHED, or with s_stress, u_deep becomes 0, else
   what surely fits into the first image. */
static inline void set_room(const struct usched *s, struct ustack *u)
{
	u->u_deep8 = WATCHED || DISPATCH_STRESS(s) ? 0
		: (uint32_t)(s->s_room < DEEP_MIN ? s->s_room : DEEP_MIN)
		  / DISPATCH_DEEP_UNIT & DISPATCH_DEEP_UNITS;
}

static inline void place(struct usched *s, struct ustack *u, struct usched_stack *k)
{
	if (k == &s->s_vacant) {
		k = s->s_victim;
		s->s_victim = k->k_ring;
		evict(s, k);
	}
	occupy(k, u);
	watch_place(k, k->k_bottom);
	k->k_threads++;
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);     /* k_sched is set first */
	if (!k->k_shared) {
		k->k_stays = 0;
		usched__set_deep(u, DEEP_MIN);
	} else {
		set_room(s, u);
	}
	watch_launch(s, u);
}

void usched__place(struct usched *s, struct ustack *u, struct usched_stack *k)
{
	place(s, u, k);
}

void usched__list_alone(struct usched *s, struct usched_stack *k)
{
	k->k_prev = &s->s_new;
	k->k_next = s->s_new.k_next;
	k->k_prev->k_next = k->k_next->k_prev = k;
}

APART static void place_alone(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = usched__brought(u);

	__atomic_store_n(&k->k_sched, s, __ATOMIC_RELAXED);
	usched__list_alone(s, k);
	k->k_resident = u;
	k->k_threads = 1;
	watch_place(k, k->k_bottom);
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);     /* k_sched is set first */
	usched__set_deep(u, DEEP_MIN);
	watch_launch(s, u);
}

APART static struct arch_jump launch(struct usched *s, struct ustack *u)
{
	if (usched__brought(u))
		place_alone(s, u);
	else
		place(s, u, usched__vacant_stack(s));
	if (s->s_block)                 /* until the thread sets its own */
		set_block(s, s->s_block);
	DISPATCH_ADD(s->s_stats.st_launches, 1);
	s->s_func = u->u_func;
	s->s_arg = u->u_begin.be_arg;
	if (WATCHED || u->u_begin.be_fd != USCHED_PLAIN) {
		s->s_func = WATCHED ? start_watched : start_other;
		s->s_arg = u;
	}
	return (struct arch_jump){ u, ARCH_LAUNCH };
}

/* ---- Run ---- */

APART static struct arch_jump leave(struct usched *s)
{
	struct usched_stack *k = &s->s_native;

	if (k->k_resident) {                                    /* R2 */
		evict(s, k);
		usched__vacate(s, k);
	}
	return (struct arch_jump){ s->s_home, 0 };
}

/* Called below the frames of the blocking thread, so what is evicted for `u' is above SP,
   or on another stack. */
struct arch_jump usched__run(struct usched *s, struct ustack *u)
{
	const struct ustack *self = s->s_current;
	struct usched_stack *k;
	struct arch_jump jump;

	usched__validate(s);
	if (DISPATCH_STRESS(s) && u != self)
		usched__evict_blocked(s, s->s_current);
	s->s_current = u;
	if (!u)
		return leave(s);
	DISPATCH_CHECK(u->u_func && ustack_sched(u) == s);
	k = u->u_stack;
	jump = (struct arch_jump){ u, DISPATCH_RESIDENT };
	if (k->k_resident != u)
		jump = k == &s->s_new ? launch(s, u) : usched__fetch(s, u);
	DISPATCH_ADD(s->s_stats.st_switches, self != u);
	*s->s_errno = u->u_errno;               /* last: call-backs change errno */
	return jump;
}

/* Called below the frames of the running thread, which has blocked. Returns the way to
   `u', or if `u' is NULL to the thread that s_next chooses. */
struct arch_jump usched__go(struct usched *s, struct ustack *u)
{
	return usched__run(s, u ? u : s->s_calls.s_next(s));    /* R2, R3 */
}

/* Does what usched__go() does, and tells the hooks if there are any. For the long way. */
static struct arch_jump go_long(struct usched *s, struct ustack *u)
{
	return s->s_hook ? s->s_go_told(s, u) : usched__go(s, u);
}

/* ---- Block ---- */

int usched__stop(struct usched *s, char *top)
{
	struct ustack *u = s->s_current;

	if (stack_depth(u->u_stack->k_bottom, top) > u->u_deep) {
		int rc = usched__fit_top(s, top);

		if (rc)
			return rc;
	}
	u->u_top = top;
	u->u_pc = (const void *)(uintptr_t)usched__resumed;
	u->u_errno = *s->s_errno;
	return 0;
}

/* Blocks the running thread. `arg' is the next thread; NULL: s_next chooses. */
static struct arch_jump hand_over(char *top, void *arg)
{
	struct usched *s = usched__current;
	int rc = usched__stop(s, top);

	return rc ? (struct arch_jump){ top, rc } : go_long(s, (struct ustack *)arg);
}

/*
 * Sets the bottom of the native stack, below the caller of usched_run(). Fails if threads
 * live at another bottom (R1). No two living native threads have the same addresses, so
 * this fails on another native thread, too.
 */
static int bind_native(struct usched *s, const char *top)
{
	struct usched_stack *k = &s->s_native;
	char *bottom = stack_align(top, DISPATCH_BOTTOM_ALIGN);

	if (k->k_threads > 0 && k->k_bottom != bottom)
		return -EINVAL;
	k->k_bottom = bottom;
	return 0;
}

static struct arch_jump enter(char *top, void *arg)
{
	struct usched *s = (struct usched *)arg;
	int rc = usched__on_native(s) ? bind_native(s, top) : 0;

	if (rc)
		return (struct arch_jump){ top, rc };
	s->s_home = top;
	return go_long(s, NULL);
}

/* UNWATCHED, because enter_threads() is entered by one fiber, and left by another. */
UNWATCHED APART static int enter_threads(struct usched *s)
{
	int rc = usched__switch(enter, s);

	if (s->s_block)
		usched__set_block(s, s->s_block);
	if (s->s_home)
		watch_arrive(s);
	return rc;
}

/* Goes to the visited thread `arg'. No thread is chosen during the visit, so s_chosen is
   free, and keeps the visitor. */
static struct arch_jump visit(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct arch_jump jump = { arg, ARCH_VISIT };
	struct ustack *u = (struct ustack *)arg;
	int rc = usched__stop(s, top);

	if (rc)
		return (struct arch_jump){ top, rc };
	if (DISPATCH_STRESS(s))
		usched__evict_blocked(s, s->s_current);
	s->s_chosen = s->s_current;
	if (u->u_stack->k_resident != u)
		jump.aj_at = usched__fetch(s, u).aj_at;
	s->s_current = u;
	return jump;
}

/*
 * Switches the long way. Until the caller runs again, this frame keeps what belongs to
 * the native thread. The caller may then be on another native thread, so no address of
 * what belongs to a native thread is kept. If `next' is NULL, the caller is usched_run(),
 * and this calls enter_threads().
 */
APART static int switch_caught(arch_next_fn *next, void *arg, struct usched *s)
{
	bool blocks = s->s_block;       /* which have exceptions */
	struct usched_caught *all_caught = blocks ? NULL : usched__caught();
	struct usched_caught mine = none_caught;
	bool owns = next && s->s_owns & (USCHED_OWNS | USCHED_EACH);
	uint64_t words = 0;
	int rc;

	usched__commit();
	usched__check_control(s);
	if (next && next != visit && OBSERVER(ob_blocks))
		OBSERVER(ob_blocks)(s);
	if (!all_caught && !owns && next) /* a tail call, so reports show the caller */
		return usched__switch(next, arg);
	if (all_caught) {
		mine = *all_caught;
		*all_caught = none_caught;
	}
	if (owns) {
		words = usched__control();
		usched__share_control(s);
	}
	rc = next ? usched__switch(next, arg) : enter_threads(s);
	if (owns)
		usched__own_control(usched__current, words);
	all_caught = blocks ? NULL : usched__caught();
	if (all_caught)
		*all_caught = mine;
	return rc;
}

/* Returns whether the short way is right: the running thread has the control words of the
   native thread, and has no exceptions in flight. */
static inline bool has_first_words(const struct usched *s)
{
	const struct usched_caught *c = usched__caught();

	return usched__control() == s->s_first
		&& !(c && (c->cg_caught || c->cg_uncaught));
}

/* Hands over where threads have TLS blocks. Exceptions in flight are in the block. A
   thread without a block, as at its end, uses that of its native thread. While `self' is
   blocked its frames must not lead to `u': `uthreads --lost' would take that for a way to
   wake `u'. So no register has `u' across the switch. */
APART static int handover_block(struct ustack *u, struct ustack *self, struct usched *s)
{
	struct ustack *volatile next = u;
	char *block = usched__block() == s->s_block ? NULL : usched__block();
	uint64_t words = usched__control();
	bool is_short = s->s_caught == &own_blocks
		&& (words == s->s_first || !(s->s_owns & USCHED_EACH));
	struct usched *now;
	int rc;

	u = next;
	next = NULL;
	rc = is_short ? usched__handover_plain(u, self, s)
		: switch_caught(hand_over, u, s);
	now = usched__here();
	if (now != s && is_short && now->s_owns & USCHED_EACH)
		usched__own_control(now, words);
	if (now != s && block)
		adopt(now, block);
	if (block || now->s_block)
		set_block(now, block ? block : now->s_block);
	return rc;
}

__attribute__((visibility("protected"), used))
int usched__handover_caught(struct ustack *u, struct ustack *self, struct usched *s)
{
	if (s->s_block)
		return handover_block(u, self, s);
	if (s->s_caught == &look_at_words && has_first_words(s))
		return usched__handover_plain(u, self, s);
	return switch_caught(hand_over, u, s);
}

BY_THREADS int ustack_block(void)
{
	struct usched *s = usched__current;
	struct ustack *self = s->s_current;

	CALLED(__func__);
	return self ? usched__handover(NULL, self, s) : -EPERM;
}

/* Reserves an image for `room' bytes of frames below `here', and for a switch. */
static int reserve_below(char *here, size_t room)
{
	struct usched *s = usched__current;
	const struct ustack *u = s->s_current;
	size_t deep;
	int error, rc;

	if (!u)
		return -EPERM;
	room += usched__frame + (usched__has_caught(s) ? CAUGHT_FRAME : 0);
	/* If SP is on another stack or above the bottom, `deep' is too large. */
	deep = stack_depth(u->u_stack->k_bottom, here);
	if (deep <= u->u_deep && deep + room <= u->u_deep)
		return 0;                       /* there is an image for this depth */
	error = *s->s_errno;
	rc = make_room(s, here, room);
	*s->s_errno = error;
	return rc;
}

BY_THREADS int ustack_reserve(size_t room)
{
	CALLED(__func__);
	if (room > USCHED_STACK_MAX && usched__current->s_current)
		return -ENOMEM;
	return reserve_below((char *)__builtin_frame_address(0), room + RESERVE_MORE);
}

BY_THREADS int usched__reserve(void)
{
	return reserve_below((char *)__builtin_frame_address(0), RESERVE_LESS);
}

/* ---- Visit ---- */

BY_THREADS int usched__visit(struct ustack *u, void (*f)(void *), void *arg)
{
	struct usched *s = usched__current;

	s->s_func = f;                          /* free: no launch comes meanwhile */
	s->s_arg = arg;
	return switch_caught(visit, u, s);
}

/* Ends a visit. If `away', the frames of the visited thread were loaded for the visit.
   They are the same as in the image, so they are dropped. */
APART static struct arch_jump end_visit(struct usched *s, bool away)
{
	struct ustack *u = s->s_current, *visitor = s->s_chosen;

	if (away) {
		watch_vacate(u);
		usched__vacate(s, u->u_stack);
		u->u_top += DISPATCH_AWAY;
	}
	s->s_current = visitor;
	*s->s_errno = visitor->u_errno;
	if (visitor->u_stack->k_resident == visitor)
		return (struct arch_jump){ visitor, DISPATCH_RESIDENT };
	return usched__fetch(s, visitor);
}

/* Calls the visitor's function. SP is at the top of the visited thread, s_current, or
   below. The visitor may have been evicted. */
UNWATCHED struct arch_jump usched__visited(int loaded)
{
	struct usched *s = usched__current;
	const struct ustack *u = s->s_current;
	bool away = loaded || u->u_stack->k_resident != u;

	if (!loaded)
		usched__load();
	s->s_func(s->s_arg);
	return end_visit(s, away);
}

/* ---- End ---- */

/* Puts the own stack of `u', which has ended, into the list of usched__left(). The record
   must not name the stack any more, because the stack may be unmapped. */
static void leave_alone(struct usched *s, struct ustack *u, struct usched_stack *k)
{
	if (k->k_prev)
		usched__unlink(k);
	k->k_resident = NULL;
	k->k_stays = USCHED_ALONE;
	k->k_next = *usched__left(s);
	*usched__left(s) = k;
	__atomic_store_n(&u->u_stack, &s->s_native, __ATOMIC_RELEASE);
}

static inline void drop_frames(struct usched *s, struct ustack *u, struct ustack *whose)
{
	struct usched_stack *k = u->u_stack;

	usched__drop_image(s, u, whose);
	if (k == &s->s_new) {
		if (usched__brought(u))
			leave_alone(s, u, usched__brought(u));
		return;
	}
	watch_release(s, u);
	k->k_threads--;
	if (k->k_stays & USCHED_ALONE) {
		leave_alone(s, u, k);
		return;
	}
	if (!k->k_resident)
		usched__unlink(k);
	if (!k->k_resident || k->k_resident == u)
		usched__vacate(s, k);                   /* k moves in the list */
}

void usched__drop_frames(struct usched *s, struct ustack *u, struct ustack *whose)
{
	drop_frames(s, u, whose);
}

/* Ends `u', which is new, blocked or running (R6). */
static inline void release(struct usched *s, struct ustack *u)
{
	struct ustack_attachment *local = u->u_attached ? u->u_attachment : NULL;

	u->u_func = NULL;                       /* first: call-backs may abort `u', too */
	u->u_attached = 0;
	if (local)
		local->a_ops->ao_free(local);
	drop_frames(s, u, u);
	if (s->s_calls.s_done)
		s->s_calls.s_done(s, u);
}

/* Finishes a thread with control words of its own, or with hooks. */
APART static struct arch_jump finish_long(struct usched *s, struct ustack *u)
{
	if (s->s_owns & (USCHED_OWNS | USCHED_EACH))
		usched__share_control(s);
	usched__tell(s, USCHED_ENDS, u, NULL);
	s->s_current = NULL;
	release(s, u);
	return go_long(s, NULL);
}

static inline struct arch_jump finish(struct usched *s, struct ustack *u)
{
	usched__check_control(s);
	if (s->s_owns)
		return finish_long(s, u);
	s->s_current = NULL;
	release(s, u);
	return usched__run(s, s->s_calls.s_next(s));
}

/* Ends a thread whose function has returned; not called by ustack_abort(). */
struct arch_jump usched__end(void)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED("the end of the thread");
	if (!u) {
		s->s_leave(s);
		s = usched__current;
		u = s->s_current;
	}
	if (!u->u_attached)
		return finish(s, u);
	u->u_attachment->a_ops->ao_end(u->u_attachment);
	return usched__finish();        /* ao_end() may have switched */
}

struct arch_jump usched__finish(void)
{
	struct usched *s = usched__current;

	return finish(s, s->s_current);
}

void usched__quit(void)
{
	if (OBSERVER(ob_leave))
		OBSERVER(ob_leave)();
	if (usched__caught())
		*usched__caught() = none_caught; /* its catch blocks are never left */
	usched__commit();
	usched__exit();
}

BY_THREADS int ustack_abort(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	if (!u->u_func)
		return -EINVAL;
	if (u == usched__current->s_current) {
		if (usched__runs(s) != u)
			s->s_coroutines->cc_settle(s, 0);
		usched__quit();
	}
	if (u == s->s_current)
		return -EBUSY;
	usched__tell(s, USCHED_ENDS, u, NULL);
	release(s, u);
	return 0;
}

/* ---- Threads ---- */

static struct ustack *pick_none(struct usched *s, struct ustack *self)
{
	(void)s;
	(void)self;
	return NULL;
}

int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *), void *arg)
{
	if (!func)
		return -EINVAL;
	u->u_top = (char *)(uintptr_t)DISPATCH_AWAY;
	__atomic_store_n(&u->u_stack, &s->s_new, __ATOMIC_RELEASE);
	u->u_func = func;
	u->u_deep = 0;
	u->u_errno = 0;
	__atomic_store_n(&u->u_tokens,
			 GET(s->s_calls.s_pick) == pick_none ? INT32_MIN : 0,
			 __ATOMIC_RELAXED);
	u->u_begin = (struct usched_begin){ arg, USCHED_PLAIN };
	if (func == usched__wrapped) {
		u->u_func = ((struct usched__wrap *)arg)->wr_func;
		u->u_begin.be_fd = USCHED_WRAPPED;
	}
	return 0;
}

int ustack_init_fd(struct usched *s, struct ustack *u, void (*func)(int fd, void *arg),
		   int fd, void *arg)
{
	int rc = -EINVAL;

	if (fd >= 0 && fd < INT32_MAX)
		rc = ustack_init(s, u, (void (*)(void *))(void (*)(void))func, arg);
	if (rc == 0)
		u->u_begin.be_fd = fd;
	return rc;
}

struct usched__wrap *usched__wrap_of(const struct ustack *u)
{
	if (u->u_begin.be_fd != USCHED_WRAPPED)
		return NULL;
	return (struct usched__wrap *)u->u_begin.be_arg;
}

BY_THREADS struct ustack *ustack_self(void)
{
	const struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED("ustack_self(), or a call that uses it,");
	/* While USTACK_KNOWN is clear, nothing else writes u_mail. */
	if (u && s->s_known && !(GET(u->u_mail) & USTACK_KNOWN))
		__atomic_store_n(&u->u_mail, u->u_mail | USTACK_KNOWN, __ATOMIC_RELAXED);
	return u;
}

/* ---- Dispatchers ---- */

static int refuse_wake(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
	return -ENOTSUP;
}

/* The dispatcher of records whose memory went back to the system. */
static const struct usched gone = { .s_home = NULL };

struct usched *usched__gone(void)
{
	return (struct usched *)(uintptr_t)&gone;
}

static void ready_by_wake(struct usched *s, struct ustack *u)
{
	u->u_tokens = USTACK_WAITING;
	s->s_calls.s_wake(s, u);
}

/* Fills in defaults, so that the calls of ustack.h need not look for NULL. */
static void fill_calls(struct usched_calls *c)
{
	if (!c->s_wake)
		c->s_wake = refuse_wake;
	if (!c->s_pick)
		c->s_pick = pick_none;
	if (!c->s_ready)
		c->s_ready = ready_by_wake;
	if (!c->s_mail)
		c->s_mail = &no_mail;
}

/* Makes the native stack the only stack, without threads. */
static void init_stacks(struct usched *s)
{
	s->s_vacant.k_prev = s->s_vacant.k_next = &s->s_vacant;
	s->s_vacant_unshared.k_prev = s->s_vacant_unshared.k_next = &s->s_vacant_unshared;
	s->s_new = (struct usched_stack){ .k_sched = s };
	s->s_new.k_prev = s->s_new.k_next = &s->s_new;
	s->s_native = (struct usched_stack){ .k_sched = s, .k_size = NATIVE_MAX,
					    .k_shared = 1 };
	s->s_native.k_ring = s->s_victim = &s->s_native;
	usched__vacate(s, &s->s_native);
}

int usched_init(struct usched *s, const struct usched_calls *calls)
{
	size_t room = calls->s_record - offsetof(struct ustack, u_image);

	if (usched__probe() < 0)
		return -ENOTSUP;
	if (__splitstack_getcontext)    /* such code changes stacks by itself */
		return -ENOTSUP;
	if (calls->s_record < sizeof(struct ustack))
		room = sizeof(struct usched_image);
	if (!calls->s_next || !calls->s_alloc || !calls->s_free
	    || !calls->s_pick != !calls->s_unpick || room > USCHED_IMAGE_MAX)
		return -EINVAL;
	*s = (struct usched){ .s_calls = *calls, .s_stress = (uint8_t)stressed(),
			      .s_room = room, .s_caught = &none_caught,
			      .s_slot = USCHED_CLOSED, .s_inside = DISPATCH_NONE };
	fill_calls(&s->s_calls);
	init_stacks(s);
	return 0;
}

BY_THREADS int usched_run(struct usched *s)
{
	struct usched *outer = usched__current;
	int error, rc;

	if (s->s_home)
		return -EBUSY;
	if (outer->s_current)           /* this frame is on that thread's stack */
		usched__runs(outer)->u_stack->k_stays |= USCHED_NESTS;
	usched__current = s;
	s->s_errno = &errno;
	error = errno;
	s->s_first = s->s_control = usched__control();
	s->s_owns |= s->s_calls.s_control_each ? USCHED_EACH : 0;
	s->s_caught = usched__look_at(s);
	watch_run(s);
	rc = switch_caught(NULL, s, s);   /* keeps the caller's exceptions */
	usched__set_control(s->s_first);
	errno = error;
	usched__current = outer;
	s->s_home = NULL;
	s->s_block = NULL;
	return rc;
}

int usched_fini(struct usched *s)
{
	struct usched_stack *k;

	if (s->s_home)
		return -EBUSY;
	for (k = s->s_victim; k; k = usched__next_stack(s, k))
		if (k->k_threads > 0)
			return -EBUSY;
	for (k = s->s_victim; k; k = usched__next_stack(s, k))
		watch_stack_end(k);
	if (s->s_coroutines)
		s->s_coroutines->cc_end(s);
	return 0;
}

void usched_stats(const struct usched *s, struct usched_stats *out)
{
	const uint64_t *from = (const uint64_t *)&s->s_stats;
	uint64_t *to = (uint64_t *)out;

	for (size_t i = 0; i < sizeof *out / sizeof *to; i++)
		to[i] = GET(from[i]);
}

void usched__forked(void)
{
	usched__current = &no_dispatcher;
}
