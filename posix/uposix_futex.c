/* SPDX-License-Identifier: MIT */
/*
 * uposix_futex.c: syscall() with SYS_futex, which may wait. libstdc++ and other libraries
 * use futexes, for example for futures, static variables of functions and
 * std::atomic::wait(). uposix_call.c has the other system calls.
 *
 * Threads wait in a hash table by address; native threads wait in the kernel. A wake
 * wakes threads first, and then native threads, up to the given number in all. If native
 * threads wait in the bucket, a wake wakes at least one of them, even beyond that number,
 * so that none of them waits for ever. Futexes allow such spurious wakes.
 *
 * If a wait has no FUTEX_PRIVATE_FLAG, another process may wake it, and that process does
 * not see the table. After UPOSIX_LOOK such a wait finds out, by the kernel's rule,
 * whether processes share the word. If they do, the wait ends with a spurious wake. Each
 * further wait for the word ends in the same way after UPOSIX_LOOK.
 */
#include "uposix_set.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

enum {
	BUCKETS = 256,
	FLAGS   = FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME,
};

/* The arguments of a wait. */
struct wish {
	uint32_t              *f_word;
	uint32_t               f_value;
	uint32_t               f_bits;
	const struct timespec *f_time;  /* NULL: no time-out */
	clockid_t              f_clock;
	bool                   f_absolute;
	bool                   f_looks; /* processes may share the word */
	int64_t                f_deadline;
	const void            *f_where;
};

static struct bucket {
	struct uwait_lock  b_lock;
	uint32_t           b_waiting;   /* number of threads in the queue or about to
					   enter; atomic */
	uint32_t           b_natives;   /* number of native threads that wait; atomic */
	struct uwait_queue b_queue;     /* w_object of a waiter is the word; uwait_room()
					   holds the bits */
} __attribute__((aligned(64))) buckets[BUCKETS];

_Static_assert(BUCKETS == 1 << (64 - 56), "the hash is an index");

static void set_deadline(struct wish *f)
{
	const struct timespec *t = f->f_time;

	if (!t)
		f->f_deadline = USCHED_NEVER;
	else if (f->f_absolute)
		f->f_deadline = uposix__deadline(t, f->f_clock);
	else if (t->tv_sec >= USCHED_NEVER / USYNC_SECOND / 2)
		f->f_deadline = USCHED_NEVER;
	else
		f->f_deadline = usync_after(t->tv_sec * USYNC_SECOND + t->tv_nsec);
}

static struct bucket *bucket_of(const void *word)
{
	uint64_t hash = (uint64_t)(uintptr_t)word / 4 * 0x9e3779b97f4a7c15u;

	return &buckets[hash >> 56];
}

static const struct uwait_kind kind = { .kd_name = "futex" };

/*
 * Waits once. Returns -EAGAIN if the word has another value. The bits are on the heap,
 * since a waker reads them and the stack may have been moved.
 */
static int wait_once(const struct wish *f, int64_t deadline)
{
	struct bucket *b = bucket_of(f->f_word);
	struct uwaiter *w;
	uint32_t *bits;
	int rc = -EAGAIN;

	if (__atomic_load_n(f->f_word, __ATOMIC_RELAXED) != f->f_value)
		return rc;
	w = uwait_prepare(deadline, false);
	if (uwait_error(w))
		return uwait_error(w);
	bits = uwait_room(w, sizeof *bits);
	if (!bits)
		return -ENOMEM;
	*bits = f->f_bits;
	uwait_note(w, &kind, f->f_word, f->f_where);
	uwait_lock(&b->b_lock);
	__atomic_fetch_add(&b->b_waiting, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(f->f_word, __ATOMIC_SEQ_CST) == f->f_value)
		rc = uwait_queue_up(w, &b->b_lock, &b->b_queue);
	else
		uwait_unlock(&b->b_lock);
	__atomic_fetch_sub(&b->b_waiting, 1, __ATOMIC_RELAXED);
	return rc;
}

/*
 * Returns true if a signal handler that ends the wait has run. pthread_cancel() does not
 * end the wait, since a futex wait is no cancellation point.
 */
static bool is_interrupted(bool restarts)
{
	struct uposix_thread *me = uposix__me();
	uint32_t before = me ? me->p_handled : 0;

	uwait__uncancel();
	return !me || uposix__handle(me) || (!restarts && me->p_handled != before);
}

/*
 * Returns true if several processes may share the word, or if that cannot be found out.
 * By the kernel's rule a page that is not anonymous is shared. The caller has just read
 * the word, so the page is present.
 */
static bool is_shared(const void *word)
{
	enum { PRESENT = 63, NOT_ANONYMOUS = 61 };
	uint64_t page = (uintptr_t)word / (uintptr_t)sysconf(_SC_PAGESIZE), entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = pread(fd, &entry, sizeof entry, (off_t)(page * sizeof entry));
		close(fd);
	}
	return n != sizeof entry || !(entry >> PRESENT & 1) || entry >> NOT_ANONYMOUS & 1;
}

static int wait_for(struct wish *f)
{
	int64_t look;
	int rc;

	set_deadline(f);
	for (;;) {
		look = f->f_looks ? usync_after(UPOSIX_LOOK) : USCHED_NEVER;
		rc = wait_once(f, look < f->f_deadline ? look : f->f_deadline);
		if (rc == -ECANCELED) {
			if (is_interrupted(!f->f_time))
				return -EINTR;
		} else if (rc == -ETIMEDOUT && look < f->f_deadline) {
			if (is_shared(f->f_word))
				return 0;
			f->f_looks = false;
		} else if (rc == -ETIMEDOUT && f->f_time
			   && uposix__early(f->f_time, f->f_clock)) {
			set_deadline(f);
		} else {
			return rc;
		}
	}
}

/* Passes the arguments to libc's syscall(). */
static long call(const long *a)
{
	return syscall(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long wait_native(const long *a)
{
	struct bucket *b = bucket_of((void *)a[0]);
	long rc;

	__atomic_fetch_add(&b->b_natives, 1, __ATOMIC_SEQ_CST);
	rc = call(a);
	__atomic_fetch_sub(&b->b_natives, 1, __ATOMIC_RELAXED);
	return rc;
}

/* Does FUTEX_WAIT or FUTEX_WAIT_BITSET for a thread. */
static long wait_here(const long *a, const void *where)
{
	bool bitset = ((int)a[1] & ~FLAGS) == FUTEX_WAIT_BITSET;
	struct wish f = {
		.f_word = (uint32_t *)a[0],
		.f_value = (uint32_t)a[2],
		.f_bits = bitset ? (uint32_t)a[5] : FUTEX_BITSET_MATCH_ANY,
		.f_time = (const struct timespec *)a[3],
		.f_clock = bitset && a[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME
			: CLOCK_MONOTONIC,
		.f_absolute = bitset,
		.f_looks = !(a[1] & FUTEX_PRIVATE_FLAG),
		.f_where = where,
	};
	int rc;

	if (f.f_bits == 0 || (uintptr_t)f.f_word % sizeof *f.f_word
	    || (f.f_time && (f.f_time->tv_sec < 0 || !uposix__is_time(f.f_time))))
		return uposix__result(-EINVAL);
	uposix__refuse_place(f.f_word);
	rc = wait_for(&f);
	if (rc == -ENOMEM || rc == -ENOTSUP || rc == -EFAULT)
		return wait_native(a);
	return uposix__result(rc);
}

static long wake_some(struct bucket *b, const void *word, uint32_t n, uint32_t bits)
{
	struct uwait_node *list = NULL, **end = &list, *next;
	long woken = 0;

	uwait_lock(&b->b_lock);
	for (struct uwait_node *i = b->b_queue.q_first; i && woken < n; i = next) {
		struct uwaiter *w = uwait_of(i);

		next = i->n_next;
		if (w->w_object != word || !(*(uint32_t *)uwait_room(w, 0) & bits)
		    || !uwait_claim(w))
			continue;
		uwait_remove(&b->b_queue, i);
		i->n_next = NULL;
		*end = i;
		end = &i->n_next;
		woken++;
	}
	uwait_unlock(&b->b_lock);
	for (; list; list = next) {
		next = list->n_next;
		uwait_finish(uwait_of(list), 0);
	}
	return woken;
}

/*
 * Wakes up to n threads, and returns how many were woken. The caller has changed the word
 * before. A signal handler may call this function.
 */
static long wake_here(const void *word, uint32_t n, uint32_t bits)
{
	struct bucket *b = bucket_of(word);
	uint64_t old;
	long woken;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&b->b_waiting, __ATOMIC_SEQ_CST) == 0)
		return 0;
	uposix__hold_handlers(&old);
	woken = wake_some(b, word, n, bits);
	uposix__release_handlers(&old);
	return woken;
}

/*
 * Wakes threads by wake_here(), and native threads by the kernel's call. Returns errors
 * of that call.
 */
static long wake(const long *a, uint32_t bits)
{
	int most = (int)a[2] > 0 ? (int)a[2] : 1;
	const void *word = (const void *)a[0];
	long here = wake_here(word, (uint32_t)most, bits), there = 0;
	long b[6];

	memcpy(b, a, sizeof b);
	if (here < most)
		b[2] = most - here;
	else if (__atomic_load_n(&bucket_of(word)->b_natives, __ATOMIC_SEQ_CST) > 0)
		b[2] = 1;
	else
		return here;
	there = call(b);
	if (there < 0)
		return here > 0 ? here : there;
	return here + there < most ? here + there : most;
}

/*
 * A thread inside a memory allocator blocks natively, since the allocator's state belongs
 * to the processor.
 */
static long futex(const long *a, const void *where)
{
	int what = (int)a[1] & ~FLAGS;
	long n;

	switch (what) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (ustack_self() && !uposix__in_allocator(where))
			return wait_here(a, where);
		return wait_native(a);
	case FUTEX_WAKE:
		return wake(a, FUTEX_BITSET_MATCH_ANY);
	case FUTEX_WAKE_BITSET:
		return wake(a, (uint32_t)a[5]);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
		n = call(a);
		/*
		 * Wakes all threads instead of moving some to the other word. That is
		 * correct, as each thread looks at its word again.
		 */
		if (n >= 0)
			n += wake_here((void *)a[0], INT_MAX, FUTEX_BITSET_MATCH_ANY);
		if (n >= 0 && what == FUTEX_WAKE_OP)
			n += wake_here((void *)a[4], INT_MAX, FUTEX_BITSET_MATCH_ANY);
		return n;
	default:
		return call(a);
	}
}

/* System calls have up to six arguments of the size of a long. */
long uposix_syscall(long number, ...)
{
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	uposix__pace();
	if (number == SYS_futex)
		return futex(a, __builtin_return_address(0));
	if (uposix__in_allocator(__builtin_return_address(0)))
		return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return uposix__call(number, a);
}

static void futex_forked(void)
{
	memset(buckets, 0, sizeof buckets);
}

UPOSIX_AT_FORK(UPOSIX_FUTEX, NULL, futex_forked)
