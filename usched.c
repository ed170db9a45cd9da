/* SPDX-License-Identifier: MIT */
/*
 * usched.c: the dispatcher.
 *
 * THE IDEA. A blocked thread is its frames, and frames are bytes. Threads run on one
 * stack, or a few, all from the same bottom. When a thread blocks, its frames stay where
 * they are until another thread needs the place. Then they are copied to the heap, to the
 * byte. They come back to the addresses they had, so pointers from frames into frames are
 * right again. So a thread costs what it uses, and as long as the running set fits the
 * stacks nothing is copied.
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
 * With added stacks, threads run on these alone. Each has its book-keeping at its head,
 * above the bottom.
 *
 * Loading the frames of A where B runs is the delicate moment: the code that copies needs
 * a stack, too, and so does a signal handler at any instruction. So SP first moves to A's
 * top, below all that will be written, and only then does the copying start. The
 * functions that move SP are in arch/, see arch/arch.h. They ask this file where to go.
 *
 * THE SWITCH. Most threads block in a statement of assembly that the compiler has put
 * into their code (uswitch.h), or in the same as a function (arch/). It saves four words
 * in the record and loads those of the next thread. usched__go() below is asked only if
 * frames have to move, or s_next has to choose.
 *
 * Three things belong to a native thread and are exchanged, so that each thread has its
 * own. errno goes to the record; its address is the same while usched_run() runs, so it
 * is looked up once (s_errno). C++'s exceptions in flight are two words, most often zero;
 * where they are not, s_caught tells. A thread that wants floating point control words of
 * its own says so, and s_caught is `all' while it runs. Such switches go through
 * switch_caught(), which keeps these in its frame; and so do all switches of builds that
 * look at each one.
 *
 * RULES, cited in the code:
 *
 *  R1  A thread runs at the same addresses all its life: on the stack where it was
 *      launched.
 *  R2  Nothing is copied when a thread blocks. It stays resident. It is evicted when, and
 *      only when, another thread must run on the same stack; or, on the native stack,
 *      when usched_run() returns and the place is lost.
 *  R3  s_next runs on the blocking thread's stack, below its top. If it returns the same
 *      thread, nothing moved and ustack_block() returns.
 *  R4  Eviction cannot fail: a thread that may be evicted has an image as large as its
 *      frames before s_next hears of its block. Reserving the image may fail, and then
 *      nothing changed.
 *  R5  A stack is never written while SP is above what is written, nor above what is
 *      still needed.
 *  R6  A thread that has ended is never evicted. Its image goes back through s_free, and
 *      s_done is the one place where its owner frees it.
 *  R7  One stack is the native one. Added stacks replace it. A new thread takes a vacant
 *      stack if there is one, preferably one on which no thread lives: so threads that
 *      fit never copy. The others share the first 64: few, so that what is copied stays
 *      in the cache. Each switch costs at most one eviction and one load. Threads on the
 *      rest are alone there, never evicted, and need no image.
 *
 * REJECTED: copying at each block (most copies are never needed); loading only the upper
 * frames and the rest on return (callees hold pointers into their callers' frames);
 * moving a stack to other addresses (the same); gaps between the dispatcher's frames and
 * the threads' made with arrays or alloca (compilers rearrange them, and signals
 * overwrite them); using the native stack beside added ones (then usched_run() could
 * never be called at another depth, for the sake of one stack more).
 *
 * LIMITS. Threads block at most 1 GiB deep, or 64 MiB on the native stack. They are tied
 * to addresses, and on the native stack so to the native thread. Shadow stacks (CET, GCS)
 * are refused. Destructors do not run in ustack_abort().
 *
 * No malloc, no pthread, no stdio: this file links with memcpy(), errno, and C++'s
 * exceptions where there are some.
 */
#include "ustack.h"

#ifdef USCHED_CHECK
#undef NDEBUG
#endif
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/offsets.h"
#include "private/direction.h"
#include "debug/watch/watch.h"

enum {
	BOTTOM_ALIGN = 64,              /* the strictest alignment of a local */
	COPY_SHORT   = 512,             /* bytes; more is left to memcpy() */
	COLOUR_STEP  = 256,             /* bytes by which neighbours' bottoms differ */
	PAGE         = 4096,            /* bytes: the sets of an L1 */
	COLOURS      = PAGE / COLOUR_STEP,
	COLOURED     = 256,             /* stacks; an L1 has no room for more of them, */
	COLOURS_FEW  = COLOURS / 2,     /* and frames of 2 KiB fit into the first page */
	AWAY         = 1,               /* in u_top: new, or its frames are elsewhere */
	DEEP_UNIT    = 8,               /* bytes: of u_deep8, */
	DEEP_UNITS   = (1 << 29) - 1,   /* and so many at most */
	EXITED       = 2,               /* in u_top: ended, with a value in u_image */
	HOT_SCHED    = 128,  /* bytes of the dispatcher that each switch writes */
	HOT_AFTER    = 80,              /* and where these end, from s_current on */
	HOT_FRAMES   = 256,             /* of a stack's frames, below the bottom */
	HOT_HEAD     = 24,              /* and of its head, above the bottom */
	SHARED_STACKS       = 64,              /* the first stacks */
	DEEP_MIN     = 1024,  /* bytes: a thread that was deeper gets a smaller image */
	DEEP_RATIO   = 4,               /* when it is less than this part as deep */
	RESERVE_MORE = 128,             /* bytes: by which frames of callers may differ */
	CAUGHT_FRAME = WATCHED ? 1024 : 256,    /* bytes: frames of the long way */
	RED_ZONE     = 256,     /* bytes below a top, which ABIs leave to its function */
	VACATED      = 0xdb,            /* USCHED_STRESS: each byte of vacated frames */
};

_Static_assert(ARCH_LOAD == 2 && ARCH_LAUNCH == 3, "OP_LOAD and OP_LAUNCH in arch/");
#ifdef S_FUNC
_Static_assert(offsetof(struct usched, s_func) == S_FUNC
		   && offsetof(struct usched, s_arg) == S_ARG
		   && offsetof(struct usched, s_current) == S_CURRENT
		   && offsetof(struct usched, s_stats.s_switches) == S_SWITCHES
		   && offsetof(struct usched, s_errno) == S_ERRNO
		   && offsetof(struct usched, s_caught) == S_CAUGHT
		   && offsetof(struct usched_caught, c_uncaught) == CAUGHT_UNCAUGHT
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
_Static_assert(sizeof(void *) != 8 || WATCHED || offsetof(struct ustack, u_image) == 64,
	       "a hand-over touches one cache line of a record");

#define NATIVE_MAX ((uint32_t)64 << 20) /* bytes: farther away is another stack */

#ifdef USCHED_CHECK
#define CHECK(condition) assert(condition)
enum { CHECKED = 1 };
#else
#define CHECK(condition) ((void)0)
enum { CHECKED = 0 };
#endif

/*
 * A build to find mistakes in programs: a thread is evicted when another one runs, gets a
 * new image each time, and its stack is overwritten.
 */
#ifdef USCHED_STRESS
enum { STRESS = 1 };
#else
enum { STRESS = 0 };
#endif

/* Called by threads, and not inlined, for the reason in uhere.h. */
#define BY_THREADS __attribute__((noinline))

/* Not inlined into callers that call it last, so they save no registers for it. */
#define APART __attribute__((noinline))

/* The j_op for a resident thread. */
#define RESIDENT (WATCHED ? ARCH_LOAD : ARCH_RESUME)

#define EXCHANGE(a, b)                          \
	do {                                    \
		__typeof__(a) a_ = (a);         \
						\
		(a) = (b);                      \
		(b) = a_;                       \
	} while (0)

/* Counters: written by one native thread, read by any. */
#define ADD(counter, n) \
	__atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define GET(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)

#define WRAPPED SIZE_MAX                /* i_size of a new thread: see usched__wrap */

static arch_next_fn enter, block, hand_over, visit, exchange, leave_frames, change,
		    leave_directly;
static void init_parts(struct usched *s);
static int  enter_threads(struct usched *s);
APART static int switch_caught(arch_next_fn *next, void *arg, struct usched *s);
static void start_other(void *thread);
static void start_watched(void *thread);
static void begin_watched(void *c);
static struct arch_jump go_on(struct usched *s, struct ustack *u, struct ustack *c);
static void exchange_frames(struct usched *s, struct ustack *u, struct ustack *c);
static struct arch_jump side(struct usched *s, struct ustack *to, struct ustack *place);
static struct usched_stack *stack_for(struct usched *s, const struct ustack *c);
static struct usched_stack *shared_place(struct usched *s);
static bool clonable(const struct ustack *c);
static int  refuse_wake(struct usched *s, struct ustack *u);
static int  refuse_ended(struct usched *s, struct ustack *u);
static int  refuse_detach(struct usched *s, struct ustack *u);
static int  refuse_join(struct usched *s, struct ustack *u, const void *where,
			void **value, int64_t deadline);
static int  join(struct ustack *u, const void *where, void **value, int64_t deadline);
static struct ustack *pick_none(struct usched *s, struct ustack *self);
static void ready_by_wake(struct usched *s, struct ustack *u);
static const struct usched_caught *look_at(const struct usched *s);
static struct usched_caught *caught(void);
static void own_control(struct usched *s, uint64_t words);
static void share_control(struct usched *s);
static void check_control(const struct usched *s);
static bool has_caught(const struct usched *s);
static inline struct arch_jump run(struct usched *s, struct ustack *u);
static struct arch_jump go(struct usched *s, struct ustack *u);
APART static struct arch_jump go_told(struct usched *s, struct ustack *u);
static void tell_changes(struct usched *s, struct ustack *u);
APART static struct arch_jump finish_long(struct usched *s, struct ustack *u);
APART static struct arch_jump load(struct usched *s, struct ustack *u);
APART static struct arch_jump launch(struct usched *s, struct ustack *u);
APART static void place_alone(struct usched *s, struct ustack *u);
static void leave_alone(struct usched *s, struct ustack *u, struct usched_stack *k);
static struct usched_stack *brought(const struct ustack *u);
static inline struct usched_stack *vacant_stack(struct usched *s);
static inline struct usched_stack *first_vacant(const struct usched *s);
static inline void place(struct usched *s, struct ustack *u, struct usched_stack *k);
APART static struct arch_jump leave(struct usched *s);
static bool contains(const struct usched_stack *k, const void *address);
static struct usched_stack *place_bottom(const struct usched *s, uintptr_t end,
					 uint16_t *colour);
static bool on_native(const struct usched *s);
static int  bind_native(struct usched *s, const char *top);
static int  stop(struct usched *s, char *top);
static void set_deep(struct ustack *u, size_t deep);
static inline void set_room(const struct usched *s, struct ustack *u);
APART static int make_room(struct usched *s, const char *top, size_t room);
static int  settle(struct usched *s, const char *top, size_t room);
static void count_depth(struct usched *s, size_t deep);
static int  exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			   size_t deep);
static size_t capacity(const struct usched *s, const struct ustack *u);
static inline void drop_image(struct usched *s, struct ustack *u, struct ustack *whose);
APART static void free_image(struct usched *s, struct ustack *u, struct ustack *whose);
static inline struct arch_jump finish(struct usched *s, struct ustack *u);
static inline void release(struct usched *s, struct ustack *u);
static inline void drop_frames(struct usched *s, struct ustack *u, struct ustack *whose);
static void evict(struct usched *s, struct usched_stack *k);
static inline void copy(char *to, const char *from, size_t n);
static size_t depth(const struct ustack *u);
static void load_frames(struct usched *s, struct ustack *u);
APART static struct arch_jump end_visit(struct usched *s, bool away);
static void vacate(struct usched *s, struct usched_stack *k);
static void occupy(struct usched_stack *k, struct ustack *u);
static void unlink_vacant(struct usched_stack *k);
static void evict_blocked(struct usched *s, struct ustack *u);
static void validate(const struct usched *s);

const struct ustack usched__none = { .u_top = NULL };
#define NONE ((struct ustack *)(uintptr_t)&usched__none)

/* The dispatcher of native threads without one. */
static struct usched outside = { .s_inside = NONE };

/* The dispatcher of records without memory. */
static const struct usched gone = {
	.s_wake = refuse_ended, .s_cancel = refuse_ended, .s_detach = refuse_detach,
	.s_join = refuse_join,
};

/* For s_caught: without C++; and to have all switches go the long way. */
static const struct usched_caught none, all = { .c_uncaught = 1 };

/* The s_mail of schedulers without. */
static const usched_mail no_mail;

/* C++'s, if linked. */
typedef struct usched_caught *globals_fn(void);
globals_fn __cxa_get_globals __attribute__((weak));

/* libgcc's, where code was compiled with -fsplit-stack. No macro tells of that option. */
void __splitstack_getcontext(void *context[10]) __attribute__((weak));

/* Used: other files name it in assembly, which LTO does not see. */
__attribute__((used)) __thread struct usched *usched__current = &outside;

/* For joins with a deadline; everything else works without uwait.c. */
int uwait_join(struct ustack *u, const void *where, void **value,
	       int64_t deadline) __attribute__((weak));

/* For threads that end in a region of ustack_preemptible(); upreempt.c's. */
void usched__leave(void) __attribute__((weak, visibility("hidden")));

/* uproc.c's: adds stacks, where s_grows is set. */
void usched__grow(struct usched *s) __attribute__((weak, visibility("hidden")));

/* debug/ulocks.c: called before each block, which all go the long way then. */
void usched__blocks(const struct usched *s) __attribute__((weak));

/* In USCHED_CHECK builds: finds calls that such a region must not contain. */
#ifdef USCHED_CHECK
void usched__called(const char *call) __attribute__((weak, visibility("hidden")));
#define CALLED(call) (usched__called ? usched__called(call) : (void)0)
#else
#define CALLED(call) ((void)0)
#endif

extern inline struct usched *ustack_sched(const struct ustack *u);
extern inline int ustack_switch(struct ustack *u);
extern inline int ustack_wait(void);
extern inline int ustack_wake(struct ustack *u);
extern inline void (*ustack_func(const struct ustack *u))(void *);
#ifdef USCHED_HERE_INLINE
extern inline struct usched *usched__here(void);
#else
BY_THREADS struct usched *usched__here(void)
{
	return usched__current;
}
#endif

int usched_init(struct usched *s)
{
	if (usched__probe() < 0)
		return -ENOTSUP;
	if (__splitstack_getcontext)    /* its functions leave these stacks */
		return -ENOTSUP;
	if (!s->s_next || !s->s_alloc || !s->s_free || s->s_room > USCHED_IMAGE_MAX)
		return -EINVAL;
	if (!s->s_wake)
		s->s_wake = refuse_wake;
	if (!s->s_pick)
		s->s_pick = pick_none;
	if (!s->s_ready)
		s->s_ready = ready_by_wake;
	if (!s->s_mail)
		s->s_mail = &no_mail;
	s->s_slot = USCHED_CLOSED;
	s->s_turn = 0;
	s->s_current = NULL;
	s->s_home = NULL;
	s->s_owns = 0;
	if (s->s_room < sizeof(struct usched_image))
		s->s_room = sizeof(struct usched_image);
	s->s_vacant.k_prev = s->s_vacant.k_next = &s->s_vacant;
	s->s_vacant_own.k_prev = s->s_vacant_own.k_next = &s->s_vacant_own;
	s->s_new = (struct usched_stack){ .k_sched = s };
	s->s_new.k_prev = s->s_new.k_next = &s->s_new;
	s->s_native = (struct usched_stack){ .k_sched = s, .k_size = NATIVE_MAX,
					    .k_shared = 1 };
	s->s_native.k_ring = s->s_victim = &s->s_native;
	s->s_own = NULL;
	vacate(s, &s->s_native);
	s->s_stacks = 0;
	s->s_colour = 0;
	s->s_stats = (struct usched_stats){ 0 };
	init_parts(s);
	return 0;
}

/* What is made later. */
static void init_parts(struct usched *s)
{
	s->s_events = NULL;
	s->s_slice = NULL;
	s->s_hook = NULL;
	s->s_over = 0;
	s->s_errno = NULL;
	s->s_caught = &none;
	s->s_inside = NONE;
}

/*
 *  base                                                        base + size
 *   | frames grow down to here ...      bottom | usched_stack | colour |
 */
int usched_add_stack(struct usched *s, void *base, size_t size)
{
	uintptr_t end = (uintptr_t)base + size;
	struct usched_stack *k;

	if (usched__probe() == 0)
		return -ENOTSUP;
	if (size < USCHED_STACK_MIN || size > USCHED_STACK_MAX)
		return -EINVAL;
	if (s->s_native.k_threads > 0)
		return -EBUSY;
	k = place_bottom(s, end, &s->s_colour);
	s->s_stacks++;
	*k = (struct usched_stack){ .k_bottom = (char *)k, .k_sched = s,
				    .k_number = s->s_number };
	k->k_size = (uint32_t)(k->k_bottom - (char *)base);
	k->k_shared = s->s_stacks <= SHARED_STACKS || STRESS;
	if (on_native(s)) {
		unlink_vacant(&s->s_native);
		k->k_ring = s->s_victim = k;
	} else if (k->k_shared) {
		k->k_ring = s->s_victim->k_ring;
		s->s_victim->k_ring = k;
	} else {
		k->k_ring = s->s_own;
		s->s_own = k;
	}
	vacate(s, k);
	watch_stack(k);
	return 0;
}

struct usched_stack *usched__make_stack(const struct usched *s, void *base, size_t size,
					uint16_t *colour)
{
	struct usched_stack *k = place_bottom(s, (uintptr_t)base + size, colour);

	*k = (struct usched_stack){ .k_bottom = (char *)k };
	k->k_size = (uint32_t)(k->k_bottom - (char *)base);
	watch_stack(k);
	return k;
}

void usched__place_alone(struct ustack *u, struct usched_stack *k)
{
	k->k_stays = USCHED_ALONE;
	u->u_top = (char *)k + AWAY;
}

void usched__end_stack(const struct usched_stack *k)
{
	watch_stack_end(k);
}

/* A signal handler may write below SP while f runs, and that is dead afterwards. */
BY_THREADS size_t usched_unused(const struct usched *s, size_t from,
				int (*f)(void *low, size_t size, void *arg), void *arg)
{
	const char *here = __builtin_frame_address(0);
	struct usched_stack *k = on_native(s) ? NULL : s->s_victim;
	size_t i = 0;

	for (; k; k = usched__next_stack(s, k), i++) {
		char *low = k->k_bottom - k->k_size, *top = k->k_bottom;
		const struct ustack *u;

		if (i < from || GET(k->k_sched) != s)   /* it has left with a thread */
			continue;
		u = k->k_resident;
		if ((u && u == s->s_current) || contains(k, here))
			continue;
		if (u)
			top = usched__top(u) - RED_ZONE;
		if (top > low && !f(low, (size_t)(top - low), arg))
			return i + 1;
	}
	return 0;
}

static bool contains(const struct usched_stack *k, const void *address)
{
	return stack_depth(k->k_bottom, address) <= k->k_size;
}

/*
 * After s_victim all others, those that threads have brought last, then NULL. k_stays
 * is for the dispatcher that has the stack now. Stacks that threads have brought do not
 * leave.
 */
struct usched_stack *usched__next_stack(const struct usched *s,
					const struct usched_stack *k)
{
	struct usched_stack *next;

	if (GET(k->k_sched) == s && k->k_stays & USCHED_ALONE) {
		next = k->k_next;
	} else {
		next = k->k_ring == s->s_victim ? s->s_own : k->k_ring;
		if (!next)
			next = s->s_new.k_next;
	}
	return next == &s->s_new ? NULL : next;
}

/*
 * Neighbours' bottoms differ, so that stacks do not fight for the same sets of a cache.
 * Where a stack and what each switch writes share the low 12 bits of addresses, 4 KiB
 * aliasing stalls loads and doubles the time of a switch: these places are left out.
 * Modulo a page:
 *
 *        | HOT_FRAMES  bottom  HOT_HEAD |     | HOT_SCHED  hot |
 */
static struct usched_stack *place_bottom(const struct usched *s, uintptr_t end,
					 uint16_t *colour)
{
	uintptr_t hot = (uintptr_t)&s->s_current + HOT_AFTER, bottom;
	unsigned colours = *colour < COLOURED ? COLOURS : COLOURS_FEW;

	do {
		bottom = end - sizeof(struct usched_stack);
		bottom -= (*colour)++ % colours * COLOUR_STEP;
		bottom &= -(uintptr_t)BOTTOM_ALIGN;
	} while ((hot - (bottom - HOT_FRAMES)) % PAGE
		 < HOT_FRAMES + HOT_HEAD + HOT_SCHED);
	return (void *)bottom;
}

BY_THREADS int usched_run(struct usched *s)
{
	struct usched *outer = usched__current;
	int error, rc;

	if (s->s_home)
		return -EBUSY;
	usched__current = s;
	s->s_errno = &errno;
	error = errno;
	s->s_first = usched__control();
	s->s_caught = look_at(s);
	watch_run(s);
	rc = switch_caught(NULL, s, s);   /* the caller may be handling an exception */
	usched__set_control(s->s_first);
	errno = error;
	usched__current = outer;
	s->s_home = NULL;
	return rc;
}

/* Not watched: it is entered by one fiber, and SP comes back from another. */
UNWATCHED APART static int enter_threads(struct usched *s)
{
	int rc = usched__switch(enter, s);

	if (s->s_home)
		watch_arrive(s);
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
	return 0;
}

void usched_stats(const struct usched *s, struct usched_stats *out)
{
	out->s_switches    = GET(s->s_stats.s_switches);
	out->s_launches    = GET(s->s_stats.s_launches);
	out->s_evictions   = GET(s->s_stats.s_evictions);
	out->s_loads       = GET(s->s_stats.s_loads);
	out->s_preempted   = GET(s->s_stats.s_preempted);
	out->s_moves       = GET(s->s_stats.s_moves);
	out->s_bytes       = GET(s->s_stats.s_bytes);
	out->s_deepest     = GET(s->s_stats.s_deepest);
	out->s_images      = GET(s->s_stats.s_images);
	out->s_image_bytes = GET(s->s_stats.s_image_bytes);
}

int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *), void *arg)
{
	if (!func)
		return -EINVAL;
	u->u_top = (char *)(uintptr_t)AWAY;
	__atomic_store_n(&u->u_stack, &s->s_new, __ATOMIC_RELEASE);
	u->u_func = func;
	u->u_deep = 0;
	u->u_errno = 0;
	u->u_tokens = GET(s->s_pick) == pick_none ? INT32_MIN : 0;
	u->u_image = (struct usched_image){ arg, 0 };
	if (func == usched__wrapped) {
		u->u_func = ((struct usched__wrap *)arg)->w_func;
		u->u_image.i_size = WRAPPED;
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
		u->u_image.i_size = (size_t)fd + 1;
	return rc;
}

void usched__wrapped(void *wrap)
{
	struct usched__wrap *w = wrap;

	w->w_begin(w);
}

struct usched__wrap *usched__wrap_of(const struct ustack *u)
{
	return u->u_image.i_size == WRAPPED ? (void *)u->u_image.i_frames : NULL;
}

BY_THREADS int ustack_block(void)
{
	struct usched *s = usched__current;
	struct ustack *self = s->s_current;

	CALLED(__func__);
	return self ? usched__handover(NULL, self, s) : -EPERM;
}

__attribute__((visibility("protected")))
int usched__handover_caught(struct ustack *u, struct ustack *self, struct usched *s)
{
	(void)self;
	return u ? switch_caught(hand_over, u, s) : switch_caught(block, s, s);
}

/*
 * What belongs to the native thread is the calling thread's. Afterwards it may be on
 * another native thread. `next' NULL: enters the dispatcher.
 */
static int switch_caught(arch_next_fn *next, void *arg, struct usched *s)
{
	struct usched_caught *all_caught = caught(), mine = none;
	bool owns = next && s->s_owns & USCHED_OWNS;
	uint64_t words = 0;
	int rc;

	usched__commit();
	check_control(s);
	if (usched__blocks && next && next != visit)
		usched__blocks(s);
	if (!all_caught && !owns && next)       /* a jump: reports want the caller */
		return usched__switch(next, arg);
	if (all_caught) {
		mine = *all_caught;
		*all_caught = none;
	}
	if (owns) {
		words = usched__control();
		share_control(s);
	}
	rc = next ? usched__switch(next, arg) : enter_threads(s);
	if (owns)
		own_control(usched__current, words);
	all_caught = caught();
	if (all_caught)
		*all_caught = mine;
	return rc;
}

/*
 * As switch_caught(), but that control words are the thread's, and errno: both sides have
 * one thread.
 */
BY_THREADS int usched__exchange(struct ustack *c)
{
	struct usched_caught *all_caught = caught(), mine = none;
	int rc;

	c->u_mail &= ~(uint32_t)ARCH_CAUGHT;
	if (!all_caught)
		return usched__switch(exchange, c);
	mine = *all_caught;
	*all_caught = none;
	if (mine.c_caught || mine.c_uncaught)
		c->u_mail |= ARCH_CAUGHT;
	rc = usched__switch(exchange, c);
	all_caught = caught();
	if (all_caught)
		*all_caught = mine;
	return rc;
}

void usched__join_frames(void)
{
	usched__runs(usched__current)->u_stack->k_stays |= USCHED_EXCHANGES;
}

void usched__leave_frames(struct ustack *c)
{
	usched__switch(leave_frames, c);
}

void usched__exchange_records(struct ustack *c)
{
	struct usched *s = usched__current;

	exchange_frames(s, s->s_current, c);
}

/* The hooks and the builds that look at each switch know of exchanges only. */
int usched__directly(const struct usched *s)
{
	return !has_caught(s);
}

/* What goes and comes is on another stack than SP. */     /* R5 */
int usched__bring(struct usched *s, struct ustack *c, int launch)
{
	struct usched_stack *k = c->u_stack;

	if (k == &s->s_new) {
		k = stack_for(s, c);
		if (k == &s->s_vacant && s->s_victim->k_resident == s->s_current)
			return 0;
		place(s, c, k);
		c->u_stack->k_stays |= USCHED_EXCHANGES;
		if (launch) {
			c->u_top = c->u_stack->k_bottom;
			c->u_pc = (const void *)(uintptr_t)usched__begin;
			c->u_fp = NULL;
			c->u_bp = c;
		}
	} else if (k->k_resident != c) {
		if (k->k_resident == s->s_current)
			return 0;
		load(s, c);
		load_frames(s, c);
	}
	return 1;
}

struct change {
	struct ustack *from, *to;
	struct ustack  place;           /* where `to' goes on: u_top has a mark then */
	int            fits;
};

int usched__change(struct ustack *from, struct ustack *to, int fits)
{
	struct change c = { .from = from, .to = to, .fits = fits };

	return usched__switch(change, &c);
}

void usched__leave_directly(struct ustack *c, struct ustack *to)
{
	struct change end = { .from = c, .to = to };

	usched__switch(leave_directly, &end);
}

int usched__fit_frames(struct usched *s, struct ustack *c, char *top)
{
	size_t deep = stack_depth(c->u_stack->k_bottom, top);
	size_t need = (deep + DEEP_UNIT - 1) & -(size_t)DEEP_UNIT;

	if (deep > c->u_stack->k_size)
		return -EFAULT;
	if (deep <= c->u_deep)
		return 0;
	if (c->u_stack->k_shared && watch_image(need) > capacity(s, c)
	    && exchange_image(s, c, s->s_current, need))
		return -ENOMEM;
	set_deep(c, deep);
	count_depth(s, deep);
	return 0;
}

int usched__copy_frames(struct ustack *clone, struct ustack *c)
{
	struct usched *s = usched__current;
	struct usched_stack *k = c->u_stack;
	int rc;

	if (!clonable(c))
		return -ENOTSUP;
	if (WATCHED && k->k_resident == c) {    /* the image has their shadow */
		evict(s, k);
		vacate(s, k);
	}
	clone->u_stack = k;
	rc = exchange_image(s, clone, s->s_current, depth(c));
	if (rc)
		return rc;
	memcpy(usched__image(clone), k->k_resident == c ? stack_low(k->k_bottom, c->u_top)
	       : usched__image(c), watch_image(depth(c)));
	clone->u_top = usched__top(c) + AWAY;
	clone->u_pc = c->u_pc;
	clone->u_fp = c->u_fp;
	clone->u_bp = c->u_bp;
	set_deep(clone, depth(c));
	if (!k->k_resident)
		unlink_vacant(k);
	k->k_threads++;
	if (!k->k_resident)
		vacate(s, k);                   /* behind those without threads */
	watch_launch(s, clone);
	return 0;
}

/* No exceptions, fibers or fake stacks, whose state is elsewhere. */
static bool clonable(const struct ustack *c)
{
#ifdef USCHED_TSAN
	return false;
#elif defined(USCHED_ASAN)
	if (c->u_fiber.f_handle)
		return false;
#endif
	return c->u_stack->k_shared && !(c->u_mail & ARCH_CAUGHT
		&& c->u_pc == (const void *)(uintptr_t)usched__resumed);
}

void usched__drop_frames(struct ustack *c, struct ustack *u)
{
	struct usched *s = ustack_sched(c);

	c->u_func = NULL;
	drop_frames(s, c, u);
	__atomic_store_n(&c->u_stack, &s->s_new, __ATOMIC_RELEASE);     /* its is `s' */
}

/* The running thread has control words of its own from now on. */
static void own_control(struct usched *s, uint64_t words)
{
	s->s_control = usched__control();
	usched__set_control(words);
	s->s_owns |= USCHED_OWNS;
	s->s_caught = &all;
}

static void share_control(struct usched *s)
{
	usched__set_control(s->s_control);
	s->s_owns &= ~USCHED_OWNS;
	s->s_caught = look_at(s);
}

void usched__set_hook(struct usched *s, struct usched_hook *h)
{
	h->h_next = s->s_hook;
	s->s_hook = h;
	s->s_owns |= USCHED_TOLD;
	s->s_caught = &all;
}

void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other)
{
	struct usched_hook *h, *next;

	for (h = s->s_hook; h; h = next) {
		next = h->h_next;
		h->h_event(h, event, u, other);
	}
}

void usched__drop_hook(struct usched *s, struct usched_hook *h)
{
	struct usched_hook **at = &s->s_hook;

	while (*at != h)
		at = &(*at)->h_next;
	*at = h->h_next;
	if (s->s_hook)
		return;
	s->s_owns &= ~USCHED_TOLD;
	if (usched__current == s && !s->s_owns)         /* else usched_run() will */
		s->s_caught = look_at(s);
}

BY_THREADS int ustack_control(int own)
{
	struct usched *s = usched__current;
	int before = s->s_owns & USCHED_OWNS;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	check_control(s);
	if (own && !before)
		own_control(s, usched__control());
	else if (!own && before)
		share_control(s);
	return before;
}

/*
 * In USCHED_CHECK builds: finds a thread that has changed the control words that threads
 * share, where others would find them: it blocks, ends, or only now has its own.
 */
static void check_control(const struct usched *s)
{
#ifdef USCHED_CHECK
	if (!s->s_current || s->s_owns & USCHED_OWNS
	    || usched__control() == s->s_first)
		return;
	CHECK(s->s_changed);            /* or: `u' needs ustack_control() */
	s->s_changed(s, s->s_current);
#else
	(void)s;
#endif
}

/* The s_caught of a thread that shares control words. */
static const struct usched_caught *look_at(const struct usched *s)
{
	const struct usched_caught *look = caught();

	if (s->s_hook || usched__blocks || WATCHED || CHECKED || STRESS
	    || usched__probe() != 1)
		return &all;
	return look ? look : &none;
}

/*
 * C++'s headers declare that __cxa_get_globals() returns the same each time, and with
 * -flto compilers rely on that here, too. But a thread may be on another native thread by
 * then, so the function is hidden from them.
 */
static struct usched_caught *caught(void)
{
	globals_fn *get = __cxa_get_globals;

	__asm__ volatile("" : "+r"(get));
	return get ? get() : NULL;
}

static bool has_caught(const struct usched *s)
{
	return s->s_caught->c_caught || s->s_caught->c_uncaught;
}

BY_THREADS int ustack_reserve(size_t room)
{
	struct usched *s = usched__current;
	const struct ustack *u = s->s_current;
	char *here = __builtin_frame_address(0);
	size_t deep;
	int error, rc;

	CALLED(__func__);
	if (!u)
		return -EPERM;
	if (room > USCHED_STACK_MAX)
		return -ENOMEM;
	room += RESERVE_MORE + usched__frame + (has_caught(s) ? CAUGHT_FRAME : 0);
	/* Above the bottom it wraps: another stack. */
	deep = stack_depth(u->u_stack->k_bottom, here);
	if (deep <= u->u_deep && deep + room <= u->u_deep)
		return 0;                               /* was as deep before */
	error = *s->s_errno;
	rc = make_room(s, here, room);
	*s->s_errno = error;
	return rc;
}

BY_THREADS int usched__visit(struct ustack *u, void (*f)(void *), void *arg)
{
	struct usched *s = usched__current;

	s->s_func = f;                          /* no thread is launched meanwhile */
	s->s_arg = arg;
	return switch_caught(visit, u, s);
}

BY_THREADS int ustack_abort(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	if (!u->u_func)
		return -EINVAL;
	if (u == usched__current->s_current) {
		if (usched__runs(s) != u)
			usched__settle(s, 0);
		if (caught())
			*caught() = none;       /* no handler will be entered or left */
		usched__commit();
		usched__exit();
	}
	if (u == s->s_current)
		return -EBUSY;
	usched__tell(s, USCHED_ENDS, u, NULL);
	release(s, u);
	return 0;
}

/*
 * A thread that runs needs no image, so that is the place for the value. ustack_init()
 * forgets the mark, and so does a block in a destructor: it is made last.
 */
BY_THREADS int ustack_exit(void *value)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED(__func__);
	if (!u)
		return -EPERM;
	if (u->u_attached)
		u->u_attachment->a_ops->a_end(u->u_attachment);
	s = usched__current;                    /* that may have switched */
	if (usched__runs(s) != u)
		usched__settle(s, 0);
	drop_image(s, u, u);
	u->u_image = (struct usched_image){ value, 0 };
	u->u_top = (char *)(uintptr_t)EXITED;
	if (caught())
		*caught() = none;               /* no handler will be entered or left */
	usched__commit();
	usched__exit();
}

void *ustack_value(const struct ustack *u)
{
	return u->u_top == (char *)(uintptr_t)EXITED ? u->u_image.i_frames : NULL;
}

BY_THREADS struct ustack *ustack_self(void)
{
	const struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED("ustack_self(), or a call that uses it,");
	/* While the bit is clear, nothing else writes there. */
	if (u && s->s_known && !(GET(u->u_mail) & USTACK_KNOWN))
		__atomic_store_n(&u->u_mail, u->u_mail | USTACK_KNOWN, __ATOMIC_RELAXED);
	return u;
}

static int refuse_wake(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
	return -ENOTSUP;
}

struct usched *usched__gone(void)
{
	return (struct usched *)(uintptr_t)&gone;
}

static int refuse_ended(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
	return -ESRCH;
}

static int refuse_detach(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
	return -EINVAL;
}

static int refuse_join(struct usched *s, struct ustack *u, const void *where,
		       void **value, int64_t deadline)
{
	(void)where;
	(void)value;
	(void)deadline;
	return refuse_detach(s, u);
}

static struct ustack *pick_none(struct usched *s, struct ustack *self)
{
	(void)s;
	(void)self;
	return NULL;
}

static void ready_by_wake(struct usched *s, struct ustack *u)
{
	u->u_tokens = USTACK_WAITING;
	s->s_wake(s, u);
}

BY_THREADS int usched__stay(int rc)
{
	struct usched *s = usched__current;

	if (s->s_current && s->s_unpick)
		s->s_unpick(s);
	return rc;
}

BY_THREADS int ustack_yield(void)
{
	struct usched *s = usched__current;
	int rc;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	rc = usched__error(s->s_current);
	if (rc)
		return rc;
	return s->s_yield ? s->s_yield(s) : -ENOTSUP;
}

BY_THREADS int ustack_start(void (*func)(void *), void *arg, struct ustack **thread)
{
	struct usched *s = usched__current;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	return s->s_start ? s->s_start(s, USCHED_SHARED, func, arg, thread) : -ENOTSUP;
}

BY_THREADS int ustack_start_alone(size_t stack, void (*func)(void *), void *arg,
				  struct ustack **thread)
{
	struct usched *s = usched__current;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	if (stack > USCHED_STACK_MAX)
		return -EINVAL;
	return s->s_start ? s->s_start(s, stack, func, arg, thread) : -ENOTSUP;
}

BY_THREADS int ustack_stack(void **low, size_t *size)
{
	struct usched *s = usched__current;
	const struct usched_stack *k;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	k = s->s_current->u_stack;
	if (k == &s->s_native)
		return -ENOTSUP;
	*low = k->k_bottom - k->k_size;
	*size = k->k_size;
	return 0;
}

int ustack_detach(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	return s->s_detach ? s->s_detach(s, u) : -ENOTSUP;
}

void usched__forked(void)
{
	usched__current = &outside;
}

int ustack_cancel(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	return s->s_cancel ? s->s_cancel(s, u) : -ENOTSUP;
}

void ustack_cancel_here(struct ustack *u)
{
	struct usched *s = usched__of(u);

	u->u_cancelled = 1;
	if (u->u_attached)
		u->u_attachment->a_ops->a_cancel(u->u_attachment);
	if (s->s_interrupt && usched__error(u))
		s->s_interrupt(s, u);
}

BY_THREADS int ustack_cancelled(void)
{
	const struct ustack *u = usched__current->s_current;

	CALLED(__func__);
	if (!u || !u->u_cancelled)
		return 0;
	return u->u_attached ? u->u_attachment->a_ops->a_cancelled(u->u_attachment) : 1;
}

BY_THREADS int ustack_join(struct ustack *u, int64_t deadline)
{
	CALLED(__func__);
	return join(u, __builtin_return_address(0), NULL, deadline);
}

BY_THREADS int ustack_join_value(struct ustack *u, void **value, int64_t deadline)
{
	CALLED(__func__);
	return join(u, __builtin_return_address(0), value, deadline);
}

APART static int join(struct ustack *u, const void *where, void **value, int64_t deadline)
{
	const struct ustack *self = usched__current->s_current;
	struct usched *s = ustack_sched(u);
	int rc, error;

	if (!s->s_join || (self && usched__current->s_join != s->s_join))
		return s == &gone ? -EINVAL : -ENOTSUP;
	if (!self || deadline <= 0)
		return s->s_join(s, u, where, value, deadline > 0 ? deadline : 0);
	do {
		if (deadline != USCHED_NEVER || (self->u_cancelled && self->u_attached))
			return uwait_join ? uwait_join(u, where, value, deadline)
				: -ENOTSUP;
		if (self->u_cancelled)
			return -ECANCELED;
		rc = s->s_join(s, u, where, value, USCHED_NEVER);
	} while (rc == -EAGAIN);
	error = usched__error(self);
	return rc == -EDEADLK && error ? error : rc;
}

int usched_may_move(const struct ustack *u)
{
	const struct usched_stack *k = u->u_stack;
	const struct usched *s = k->k_sched;

	return u != s->s_current && (k == &s->s_new || (!k->k_shared && !k->k_stays));
}

void usched_move(struct ustack *u, struct usched *to)
{
	struct usched_stack *k = u->u_stack;

	if (k == &k->k_sched->s_new)
		__atomic_store_n(&u->u_stack, &to->s_new, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&k->k_sched, to, __ATOMIC_RELAXED);
}

void usched_drop_stack(struct usched_stack *k)
{
	unlink_vacant(k);
}

void usched_take_stack(struct usched *s, struct usched_stack *k)
{
	__atomic_store_n(&k->k_sched, s, __ATOMIC_RELAXED);
	vacate(s, k);
}

int ustack_attach(struct ustack_attachment *l)
{
	struct ustack *u = usched__current->s_current;

	CALLED(__func__);
	if (!u)
		return -EPERM;
	if (u->u_attached)
		return -EBUSY;
	l->a_func = u->u_func;
	u->u_attachment = l;
	u->u_attached = 1;
	return 0;
}

/* Called by usched__switch(), below the frame whose top is `top'. */

static struct arch_jump enter(char *top, void *arg)
{
	struct usched *s = arg;
	int rc = on_native(s) ? bind_native(s, top) : 0;

	if (rc)
		return (struct arch_jump){ top, rc };
	s->s_home = top;
	return go(s, NULL);
}

static struct arch_jump block(char *top, void *arg)
{
	struct usched *s = arg;
	int rc = stop(s, top);

	return rc ? (struct arch_jump){ top, rc } : go(s, NULL);
}

static struct arch_jump hand_over(char *top, void *arg)
{
	struct usched *s = usched__current;
	int rc = stop(s, top);

	return rc ? (struct arch_jump){ top, rc } : go(s, arg);
}

/* The running thread is noted in s_chosen: nothing is picked meanwhile. */
static struct arch_jump visit(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct arch_jump jump = { arg, ARCH_VISIT };
	struct ustack *u = arg;
	int rc = stop(s, top);

	if (rc)
		return (struct arch_jump){ top, rc };
	if (STRESS)
		evict_blocked(s, s->s_current);
	s->s_chosen = s->s_current;
	if (u->u_stack->k_resident != u)
		jump.j_at = load(s, u).j_at;
	s->s_current = u;
	return jump;
}

/* The running thread blocks, with that top. */
static int stop(struct usched *s, char *top)
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

/*
 * Coroutines: see uco.c. The record `c' has the frames that are suspended, those of the
 * running thread the others, and to resume and to yield are both to exchange them.
 */
static struct arch_jump exchange(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current, *c = arg;
	int rc = stop(s, top);

	if (rc)
		return (struct arch_jump){ top, rc };
	exchange_frames(s, u, c);
	if (STRESS)
		evict_blocked(s, c);
	return go_on(s, u, c);
}

/* A coroutine has ended: its frames are dropped, and its resumer goes on. */
static struct arch_jump leave_frames(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current, *c = arg;

	u->u_top = top;
	exchange_frames(s, u, c);
	usched__drop_frames(c, u);
	return go_on(s, u, c);
}

/* With the frames that `u', the running thread, has got from `c'. */
static struct arch_jump go_on(struct usched *s, struct ustack *u, struct ustack *c)
{
	struct usched_stack *k = u->u_stack;

	validate(s);
	if (k->k_resident == u)
		return (struct arch_jump){ u, RESIDENT };
	if (k != &s->s_new)
		return load(s, u);
	place(s, u, stack_for(s, c));
	u->u_stack->k_stays |= USCHED_EXCHANGES;
	s->s_func = WATCHED ? begin_watched : c->u_func;
	s->s_arg = c;
	return (struct arch_jump){ u, ARCH_LAUNCH };
}

/* Directly: nothing is exchanged. */
static struct arch_jump change(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct change *c = arg;
	int rc = c->fits ? usched__fit_frames(s, c->from, top) : 0;

	if (rc)
		return (struct arch_jump){ top, rc };
	c->from->u_top = top;
	c->from->u_pc = (const void *)(uintptr_t)usched__resumed;
	return side(s, c->to, &c->place);
}

static struct arch_jump leave_directly(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct change *c = arg;

	c->from->u_top = top;
	usched__drop_frames(c->from, s->s_current);
	return side(s, c->to, &c->place);
}

/* They are in place, or on a stack where nothing is yet. */
static struct arch_jump side(struct usched *s, struct ustack *to, struct ustack *place)
{
	intptr_t op = ARCH_RESUME;

	place->u_top = to->u_top;
	place->u_pc = to->u_pc;
	place->u_fp = to->u_fp;
	place->u_bp = to->u_bp;
	place->u_stack = to->u_stack;
	if ((uintptr_t)to->u_top & AWAY) {
		op = ARCH_LAUNCH;
		s->s_func = to->u_func;
		s->s_arg = to;
	}
	if (to != s->s_current) {
		to->u_top = USCHED_DIRECT;
		s->s_inside = to;
	}
	return (struct arch_jump){ place, op };
}

/* As for place(). */
static struct usched_stack *stack_for(struct usched *s, const struct ustack *c)
{
	return c->u_mail & ARCH_CLONABLE ? shared_place(s) : vacant_stack(s);
}

static struct usched_stack *shared_place(struct usched *s)
{
	struct usched_stack *k = s->s_victim;

	do {
		if (!k->k_resident)
			return k;
		k = k->k_ring;
	} while (k != s->s_victim);
	return &s->s_vacant;
}

/*
 * What is the thread's stays: its function, its tokens, that it was cancelled. Images are
 * exchanged, too; of those in the records one may hold frames.
 */
static void exchange_frames(struct usched *s, struct ustack *u, struct ustack *c)
{
	struct usched_stack *k = c->u_stack;
	bool in_place = k->k_resident == c;
	bool away = k != &s->s_new && !in_place && !c->u_outside;
	size_t bytes = away ? watch_image(depth(c)) : 0;
	const char *frames = usched__image(c);
	struct usched_image image = u->u_image;
	const bool has_image = u->u_outside;
	const uint32_t deep8 = u->u_deep8;

	u->u_image = c->u_image;
	u->u_outside = c->u_outside;
	memcpy(usched__image(u), frames, bytes);
	c->u_image = image;
	c->u_outside = has_image;
	u->u_deep8 = c->u_deep8;
	c->u_deep8 = deep8 & DEEP_UNITS;
	EXCHANGE(u->u_top, c->u_top);
	EXCHANGE(u->u_pc, c->u_pc);
	EXCHANGE(u->u_fp, c->u_fp);
	EXCHANGE(u->u_bp, c->u_bp);
	u->u_stack->k_resident = c;
	if (in_place)
		k->k_resident = u;
	__atomic_store_n(&c->u_stack, u->u_stack, __ATOMIC_RELEASE);
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);
	watch_exchange(s, u, c);
}

/* Called by the code in arch/. */

/* The running thread has blocked. This is below its frames. */
struct arch_jump usched__go(struct ustack *u, struct usched *s)
{
	return run(s, u ? u : s->s_next(s));                    /* R2, R3 */
}

/* The same on the long way, where hooks are told. */
static struct arch_jump go(struct usched *s, struct ustack *u)
{
	return s->s_hook ? go_told(s, u) : usched__go(u, s);
}

static struct arch_jump go_told(struct usched *s, struct ustack *u)
{
	struct ustack *self = s->s_current;

	if (u && u->u_stack->k_resident == u && !STRESS) {
		usched__tell_all(s, USCHED_HANDS_OVER, self, u);
		return run(s, u);
	}
	if (self)
		usched__tell_all(s, USCHED_BLOCKS, self, NULL);
	if (!u)
		u = s->s_next(s);
	tell_changes(s, u);
	if (u)
		usched__tell_all(s, USCHED_RUNS, u, self);
	return run(s, u);
}

/* What run() will do. */
static void tell_changes(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = u ? u->u_stack : &s->s_native;
	struct ustack *self = s->s_current, *out;

	if (k == &s->s_new && brought(u)) {
		k = brought(u);
	} else if (k == &s->s_new) {
		k = vacant_stack(s);
		if (k == &s->s_vacant)
			k = s->s_victim;
	}
	out = k->k_resident;
	if (STRESS && self && self != u && self->u_stack->k_shared) {
		usched__tell_all(s, USCHED_EVICTS, self, NULL);
		out = out == self ? NULL : out;
	}
	if (out && out != u)
		usched__tell_all(s, USCHED_EVICTS, out, NULL);
	if (u && u->u_stack == &s->s_new)
		usched__tell_all(s, USCHED_STARTS, u, NULL);
	else if (u && k->k_resident != u)
		usched__tell_all(s, USCHED_LOADS, u, NULL);
}

/* The running thread is deeper than before: reserves an image for that (R4). */
int usched__fit_top(struct usched *s, char *top)
{
	struct ustack *u = s->s_current;
	int error = *s->s_errno, rc = make_room(s, top, 0);
	size_t deep = stack_depth(u->u_stack->k_bottom, top);

	*s->s_errno = error;
	if (rc)
		return rc;
	set_deep(u, deep);
	count_depth(s, deep);
	return 0;
}

/* Blocks up to that depth need no check. */
static void set_deep(struct ustack *u, size_t deep)
{
	u->u_deep8 = (uint32_t)(deep + DEEP_UNIT - 1) / DEEP_UNIT & DEEP_UNITS;
}

/*
 * A thread's first calls, where it does not begin with its function. Compilers make the
 * last one a jump: it costs the thread no frame.
 */

static void start_fd(const struct ustack *u)
{
	((void (*)(int, void *))(void (*)(void))u->u_func)((int)u->u_image.i_size - 1,
							   u->u_image.i_frames);
}

static void start_other(void *thread)
{
	const struct ustack *u = thread;

	if (u->u_image.i_size == WRAPPED)
		usched__wrapped(u->u_image.i_frames);
	else
		start_fd(u);
}

UNWATCHED static void start_watched(void *thread)
{
	const struct ustack *u = thread;

	watch_arrive(ustack_sched(u));
	if (u->u_image.i_size)
		start_other(thread);
	else
		u->u_func(u->u_image.i_frames);
}

UNWATCHED static void begin_watched(void *c)
{
	watch_arrive(usched__current);
	((const struct ustack *)c)->u_func(c);
}

/* After the function of a thread; not after ustack_abort(). */
struct arch_jump usched__end(void)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED("the end of the thread");
	if (!u) {
		usched__leave();
		s = usched__current;
		u = s->s_current;
	}
	if (!u->u_attached)
		return finish(s, u);
	u->u_attachment->a_ops->a_end(u->u_attachment);
	return usched__finish();        /* that may have switched */
}

struct arch_jump usched__finish(void)
{
	struct usched *s = usched__current;

	return finish(s, s->s_current);
}

static inline struct arch_jump finish(struct usched *s, struct ustack *u)
{
	check_control(s);
	if (s->s_owns)
		return finish_long(s, u);
	s->s_current = NULL;
	release(s, u);
	return run(s, s->s_next(s));
}

/* With control words of its own, or hooks. */
static struct arch_jump finish_long(struct usched *s, struct ustack *u)
{
	if (s->s_owns & USCHED_OWNS)
		share_control(s);
	usched__tell(s, USCHED_ENDS, u, NULL);
	s->s_current = NULL;
	release(s, u);
	return go(s, NULL);
}

/* SP is at the top of s_current, or below. */    /* R5 */
UNWATCHED void usched__load(void)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	if (u && u->u_stack->k_resident != u)
		load_frames(s, u);
	watch_arrive(s);
}

/* SP is at the top of s_current, or below; and what calls this there may be lost. */
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

/* Back to the visitor. Frames that were loaded are the same as in the image. */
static struct arch_jump end_visit(struct usched *s, bool away)
{
	struct ustack *u = s->s_current, *visitor = s->s_chosen;

	if (away) {
		watch_vacate(u);
		vacate(s, u->u_stack);
		u->u_top += AWAY;
	}
	s->s_current = visitor;
	*s->s_errno = visitor->u_errno;
	if (visitor->u_stack->k_resident == visitor)
		return (struct arch_jump){ visitor, RESIDENT };
	return load(s, visitor);
}

static void load_frames(struct usched *s, struct ustack *u)
{
	size_t deep = depth(u);

	u->u_top = usched__top(u);
	occupy(u->u_stack, u);
	ADD(s->s_stats.s_loads, 1);
	ADD(s->s_stats.s_bytes, deep);
	copy(stack_low(u->u_stack->k_bottom, u->u_top), usched__image(u), deep); /* R1 */
	watch_loaded(u);
}

/*
 * Makes `u' the running thread, and returns the way there. What is evicted for it is
 * above SP, or on another stack: this runs below the frames of the blocking thread.
 */
static inline struct arch_jump run(struct usched *s, struct ustack *u)
{
	const struct ustack *self = s->s_current;
	struct usched_stack *k;
	struct arch_jump jump;

	validate(s);
	if (STRESS && u != self)
		evict_blocked(s, s->s_current);
	s->s_current = u;
	if (!u)
		return leave(s);
	CHECK(u->u_func && ustack_sched(u) == s);
	k = u->u_stack;
	jump = (struct arch_jump){ u, RESIDENT };
	if (k->k_resident != u)
		jump = k == &s->s_new ? launch(s, u) : load(s, u);
	ADD(s->s_stats.s_switches, self != u);
	*s->s_errno = u->u_errno;               /* after the call-backs */
	return jump;
}

static struct arch_jump load(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = u->u_stack;

	if (k->k_resident)
		evict(s, k);
	watch_place(k, usched__top(u));
	return (struct arch_jump){ u, ARCH_LOAD };
}

static struct arch_jump launch(struct usched *s, struct ustack *u)
{
	if (brought(u))
		place_alone(s, u);
	else
		place(s, u, vacant_stack(s));
	ADD(s->s_stats.s_launches, 1);
	s->s_func = u->u_func;
	s->s_arg = u->u_image.i_frames;
	if (WATCHED || u->u_image.i_size) {
		s->s_func = WATCHED ? start_watched : start_other;
		s->s_arg = u;
	}
	if (s->s_control_each)
		own_control(s, s->s_first);
	return (struct arch_jump){ u, ARCH_LAUNCH };
}

/* The stack that `u', which is new, has brought along, or NULL. */
static struct usched_stack *brought(const struct ustack *u)
{
	return (void *)((uintptr_t)u->u_top - AWAY);
}

static void place_alone(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = brought(u);

	__atomic_store_n(&k->k_sched, s, __ATOMIC_RELAXED);
	k->k_prev = &s->s_new;
	k->k_next = s->s_new.k_next;
	k->k_prev->k_next = k->k_next->k_prev = k;
	k->k_resident = u;
	k->k_threads = 1;
	watch_place(k, k->k_bottom);
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);     /* k_sched comes before */
	set_deep(u, DEEP_MIN);
	watch_launch(s, u);
}

/* `u' has ended. Its record does not name the stack any more, which may be unmapped. */
static void leave_alone(struct usched *s, struct ustack *u, struct usched_stack *k)
{
	if (k->k_resident)
		unlink_vacant(k);
	k->k_resident = NULL;
	k->k_stays = USCHED_ALONE;
	k->k_next = *usched__left(s);
	*usched__left(s) = k;
	__atomic_store_n(&u->u_stack, &s->s_native, __ATOMIC_RELEASE);
}

/*
 * The stack for a new thread, or the head of the list. Before threads share one, more are
 * added, if there are more.
 */
static inline struct usched_stack *vacant_stack(struct usched *s)
{
	struct usched_stack *k = first_vacant(s);

	if (s->s_grows && (k == &s->s_vacant || k->k_threads > 0
			   || (s->s_moves && k->k_shared))) {
		usched__grow(s);
		k = first_vacant(s);
	}
	return k;
}

static inline struct usched_stack *first_vacant(const struct usched *s)
{
	struct usched_stack *k = s->s_vacant_own.k_next;

	return k == &s->s_vacant_own ? s->s_vacant.k_next : k;
}

/* On the vacant stack `k'; if that is the head of their list there is none (R7). */
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
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);     /* k_sched comes before */
	if (!k->k_shared) {
		k->k_stays = 0;
		set_deep(u, DEEP_MIN);
	} else {
		set_room(s, u);
	}
	watch_launch(s, u);
}

/* As deep as its image is for sure; WATCHED and STRESS: not before its first block. */
static inline void set_room(const struct usched *s, struct ustack *u)
{
	u->u_deep8 = WATCHED || STRESS ? 0
		: (uint32_t)(s->s_room < DEEP_MIN ? s->s_room : DEEP_MIN) / DEEP_UNIT
		  & DEEP_UNITS;
}

static struct arch_jump leave(struct usched *s)
{
	struct usched_stack *k = &s->s_native;

	if (k->k_resident) {                                    /* R2 */
		evict(s, k);
		vacate(s, k);
	}
	return (struct arch_jump){ s->s_home, 0 };
}

static bool on_native(const struct usched *s)
{
	return s->s_victim == &s->s_native;
}

/*
 * Binds to the native stack below the caller of usched_run(), for R1. No two living
 * native threads have the same addresses, so this finds another native thread, too.
 */
static int bind_native(struct usched *s, const char *top)
{
	struct usched_stack *k = &s->s_native;
	char *bottom = stack_align(top, BOTTOM_ALIGN);

	if (k->k_threads > 0 && k->k_bottom != bottom)
		return -EINVAL;
	k->k_bottom = bottom;
	return 0;
}

static void count_depth(struct usched *s, size_t deep)
{
	if (deep > s->s_stats.s_deepest)
		ADD(s->s_stats.s_deepest, deep - s->s_stats.s_deepest);
}

/* Reserves an image for the frames from `top' on, and `room' bytes more. */
static int make_room(struct usched *s, const char *top, size_t room)
{
	struct ustack *u = s->s_current;
	size_t need = stack_depth(u->u_stack->k_bottom, top);
	bool fits;
	int rc;

	if (need > u->u_stack->k_size)          /* or above the bottom: wraps */
		return settle(s, top, room);
	if (!u->u_stack->k_shared)                              /* R7 */
		return 0;
	need = (need + room + DEEP_UNIT - 1) & -(size_t)DEEP_UNIT;
	fits = watch_image(need) <= capacity(s, u);
	if (fits && !STRESS)
		return 0;
	rc = exchange_image(s, u, u, need < u->u_deep ? u->u_deep : need);
	return fits ? 0 : rc;
}

/* On another stack: what s_inside is for, or a signal handler's. */
static int settle(struct usched *s, const char *top, size_t room)
{
	int rc = -EFAULT;

	if (s->s_inside->u_top == USCHED_DIRECT)
		rc = usched__settle(s, 1);
	return rc ? rc : make_room(s, top, room);
}

/*
 * An image for `deep' bytes of frames instead of the one that there is: it holds none.
 * `whose': the thread to the scheduler.
 */
static int exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			  size_t deep)
{
	size_t need = watch_image(deep), size = need;
	void *image;

	if (need <= s->s_room && !STRESS) {
		drop_image(s, u, whose);
		return 0;
	}
	image = s->s_alloc(s, whose, &size);
	if (!image)
		return -ENOMEM;
	if (size < need
	    || size > USCHED_IMAGE_MAX) { /* the scheduler broke its contract */
		s->s_free(s, whose, image, size);
		return -ENOMEM;
	}
	drop_image(s, u, whose);
	u->u_image = (struct usched_image){ image, size };
	u->u_outside = 1;
	ADD(s->s_stats.s_images, 1);
	ADD(s->s_stats.s_image_bytes, size);
	return 0;
}

int usched__fits(const struct usched *s, const char *top)
{
	const struct ustack *u = s->s_current;
	size_t need = stack_depth(u->u_stack->k_bottom, top);

	return need <= u->u_stack->k_size       /* or another stack */
		&& (STRESS || !u->u_stack->k_shared     /* images move there */
		    || watch_image(need) <= capacity(s, u));
}

static size_t capacity(const struct usched *s, const struct ustack *u)
{
	if (u->u_outside)
		return u->u_image.i_size;
	return STRESS ? 0 : s->s_room;
}

/* Back to the first image. */
static inline void drop_image(struct usched *s, struct ustack *u, struct ustack *whose)
{
	if (u->u_outside)
		free_image(s, u, whose);
}

static void free_image(struct usched *s, struct ustack *u, struct ustack *whose)
{
	struct usched_image image = u->u_image;

	u->u_outside = 0;
	ADD(s->s_stats.s_images, -(uint64_t)1);
	ADD(s->s_stats.s_image_bytes, -(uint64_t)image.i_size);
	s->s_free(s, whose, image.i_frames, image.i_size);
}

/* Ends `u', in whatever state it is (R6). */
static inline void release(struct usched *s, struct ustack *u)
{
	struct ustack_attachment *local = u->u_attached ? u->u_attachment : NULL;

	u->u_func = NULL;                       /* first: call-backs may abort, too */
	u->u_attached = 0;
	if (local)
		local->a_ops->a_free(local);
	drop_frames(s, u, u);
	if (s->s_done)
		s->s_done(s, u);
}

/* Of `u', and its image, which is the thread `whose' to the scheduler. */
static inline void drop_frames(struct usched *s, struct ustack *u, struct ustack *whose)
{
	struct usched_stack *k = u->u_stack;

	drop_image(s, u, whose);
	if (k == &s->s_new) {
		if (brought(u))
			leave_alone(s, u, brought(u));
		return;
	}
	watch_release(s, u);
	k->k_threads--;
	if (k->k_stays & USCHED_ALONE) {
		leave_alone(s, u, k);
		return;
	}
	if (!k->k_resident)
		unlink_vacant(k);
	if (!k->k_resident || k->k_resident == u)
		vacate(s, k);                   /* moves it in the list */
}

static void evict(struct usched *s, struct usched_stack *k)
{
	struct ustack *u = k->k_resident;
	size_t deep = depth(u);

	CHECK(u && u->u_func && k->k_shared
	      && watch_image(deep) <= capacity(s, u)); /* R4, R6 */
	if (u->u_deep > DEEP_MIN && deep < u->u_deep / DEEP_RATIO && !s->s_keep
	    && u->u_tokens != ARCH_COROUTINE && exchange_image(s, u, u, deep) == 0)
		set_deep(u, deep);
	count_depth(s, deep);
	ADD(s->s_stats.s_evictions, 1);
	ADD(s->s_stats.s_bytes, deep);
	watch_evict(u);
	copy(usched__image(u), stack_low(k->k_bottom, u->u_top), deep);
	u->u_top += AWAY;
}

/*
 * memcpy() in pieces of a fixed size: for the few cache lines of a shallow thread,
 * memcpy() takes longer to choose a way to copy than to copy.
 */
static inline void copy(char *to, const char *from, size_t n)
{
	if (n <= COPY_SHORT) {
		for (; n >= 32; n -= 32, to += 32, from += 32)
			memcpy(to, from, 32);
		if (n & 16)
			memcpy(to, from, 16), to += 16, from += 16;
		n &= 15;
	}
	if (n > 0)
		memcpy(to, from, n);
}

static size_t depth(const struct ustack *u)
{
	return stack_depth(u->u_stack->k_bottom, usched__top(u));
}

/* Without a resident: into the list, those without threads first. */
static void vacate(struct usched *s, struct usched_stack *k)
{
	struct usched_stack *prev = s->s_moves && !k->k_shared ? &s->s_vacant_own
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
		unlink_vacant(k);
	k->k_resident = u;
}

static void unlink_vacant(struct usched_stack *k)
{
	k->k_prev->k_next = k->k_next;
	k->k_next->k_prev = k->k_prev;
}

/* In USCHED_STRESS builds: evicts the blocked thread at once. This is below its top. */
static void evict_blocked(struct usched *s, struct ustack *u)
{
	if (!u || !u->u_stack->k_shared)
		return;
	evict(s, u->u_stack);
	vacate(s, u->u_stack);
	memset(stack_low(u->u_stack->k_bottom, usched__top(u)), VACATED, depth(u));
}

#ifdef USCHED_CHECK
/* The stacks in the list. */
static size_t validate_vacant(const struct usched_stack *list)
{
	const struct usched_stack *k;
	size_t listed = 0;
	bool behind = false;            /* among those with threads */

	for (k = list->k_next; k != list; k = k->k_next) {
		CHECK(!k->k_resident && k->k_next->k_prev == k);
		CHECK(!behind || k->k_threads > 0);
		behind = k->k_threads > 0;
		listed++;
	}
	return listed;
}
#endif

/*
 * In USCHED_CHECK builds: validates every stack and the lists of vacant ones. Those that
 * have left with a thread are another dispatcher's.
 */
static void validate(const struct usched *s)
{
#ifdef USCHED_CHECK
	const struct usched_stack *k = s->s_victim;
	size_t vacant = 0, listed;

	for (; k; k = usched__next_stack(s, k)) {
		const struct ustack *u;

		if (GET(k->k_sched) != s)
			continue;
		u = k->k_resident;
		vacant += !u;
		CHECK(!u || (u->u_stack == k && u->u_func && k->k_threads > 0));
		CHECK(!u || u == s->s_current || !stack_is_deeper(k->k_bottom, u->u_top));
		CHECK(!u || u == s->s_current || u->u_top == usched__top(u));
		CHECK(k->k_shared || k->k_threads <= 1);
	}
	listed = validate_vacant(&s->s_vacant) + validate_vacant(&s->s_vacant_own);
	CHECK(vacant == listed);
#else
	(void)s;
#endif
}
