/* SPDX-License-Identifier: MIT */
/*
 * test_inspect_live.c: dumps while threads go on: the calls that a dump shows are those
 * that each thread found itself before it blocked; objects that are freed right after
 * each grant; threads that start, end and are cancelled, schedulers that come and go;
 * processors that do not answer.
 */
#include <alloca.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "../help/calls.h"
#include "../help/procs.h"

#include "../../debug/uinspect.h"
#include "../../usync.h"

#define LATE "does not answer"

static char *dump(unsigned how)
{
	FILE *file = tmpfile();

	TEST_TRUE(file);
	TEST_EQUAL(uinspect_dump(fileno(file), how), 0);
	return test_contents(file);
}

/* All processors answer in the end; one that the kernel stops is late. */
static char *dump_answered(void)
{
	char *text;

	while (strstr(text = dump(0), LATE))
		free(text);
	return text;
}

/* ---- Calls ---- */

enum { FRAMES = 64, DEPTH = 10, LOCAL = 500, DIVERS = 60 };

static struct diver {
	struct ustack   *d_thread;
	struct usync_sem d_sem;
	uint32_t         d_seed;
	struct calls     d_calls;
	atomic_int       d_there;       /* it blocks, or is about to */
	atomic_int       d_done;        /* blocks that are over */
} divers[DIVERS];

static void block_there(void *arg)
{
	struct diver *d = arg;

	test_take_calls(&d->d_calls);
	d->d_there++;
	if (d->d_seed % 2)
		TEST_EQUAL(usync_sem_wait(&d->d_sem, USCHED_NEVER), 0);
	else
		TEST_EQUAL(ustack_wait(), 0);
	d->d_there--;
	d->d_done++;
}

static void dive(void *arg)
{
	struct diver *d = arg;
	uint32_t *seed = &d->d_seed;

	test_descend(seed, test_random(seed) % DEPTH, LOCAL, block_there, d);
	test_descend(seed, test_random(seed) % DEPTH, LOCAL, block_there, d);
}

/* The addresses on the lines behind this one, the last call first. */
static int calls_behind(const char *line, uintptr_t calls[FRAMES + 8])
{
	int n = 0;

	while ((line = strchr(line, '\n')) && strncmp(line, "\n\t0x", 4) == 0
	       && n < FRAMES + 8)
		calls[n++] = (uintptr_t)strtoull(line += 2, NULL, 16);
	return n;
}

/*
 * From the caller of its innermost function on they are those that the thread
 * has found, up to what has called it first. That is shown by no dump. Below may be a
 * sanitizer's backtrace().
 */
static void compare(const uintptr_t *calls, int n, const struct calls *found)
{
	void *const *frames = found->c_frames;
	int at = 0, from;

	if (found->c_count < 3)
		return;                         /* no unwinder here */
	for (from = 1; from <= 2 && (from == 1 || at == n); from++)
		for (at = 0; at < n && calls[at] + 1 != (uintptr_t)frames[from]; at++)
			;
	TEST_TRUE(at > 0 && at < n);
	for (from--; at < n && from < found->c_count; at++, from++)
		TEST_EQUAL(calls[at] + 1, (uintptr_t)frames[from]);
	TEST_EQUAL(at, n);
	if (test_has_stacks())                  /* else there is home */
		TEST_TRUE(from >= found->c_count - 1);
}

static void compare_diver(const char *text, const struct diver *d)
{
	uintptr_t calls[FRAMES + 8];
	const char *line, *head;
	char name[40];

	snprintf(name, sizeof name, "\nthread %p,", (const void *)d->d_thread);
	line = head = strstr(text, name);
	TEST_TRUE(line);
	while (head > text && strncmp(head, "\n\n", 2) != 0)
		head--;
	compare(calls, calls_behind(head + 2, calls), &d->d_calls);
}

static void await_divers(void)
{
	for (int i = 0; i < DIVERS; i++)
		while (!divers[i].d_there)
			sleep_ms(1);
	sleep_ms(2);
}

static void wake_divers(void)
{
	for (int i = 0; i < DIVERS; i++)
		if (divers[i].d_seed % 2)
			TEST_EQUAL(usync_sem_post(&divers[i].d_sem), 0);
		else
			TEST_EQUAL(ustack_wake(divers[i].d_thread), 0);
}

static void show_calls(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	char *text;

	over->o_hold(s);
	memset(divers, 0, sizeof divers);
	for (int i = 0; i < DIVERS; i++) {
		divers[i].d_seed = (uint32_t)i + 1;
		TEST_EQUAL(over->o_start(s, dive, &divers[i], &divers[i].d_thread), 0);
	}
	for (int round = 0; round < 2; round++) {
		await_divers();
		text = dump_answered();
		for (int i = 0; i < DIVERS; i++)
			compare_diver(text, &divers[i]);
		free(text);
		wake_divers();
		for (int i = 0; round == 0 && i < DIVERS; i++)
			while (divers[i].d_done == 0)
				sleep_ms(1);
	}
	for (int i = 0; i < DIVERS; i++)
		TEST_EQUAL(ustack_join(divers[i].d_thread, NULL, USCHED_NEVER), 0);
	over->o_release(s);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST_CASE(test_calls, each_conf, show_calls)

/* From a thread, with the same result, and while one dumps itself. */
static void dump_it(void *unused)
{
	static const char head[] = "threads: ";
	char *text = dump(0);

	(void)unused;
	TEST_EQUAL(strncmp(text, head, sizeof head - 1), 0);
	free(text);
}

static void dump_by_threads(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct ustack *u[4];

	for (int i = 0; i < 4; i++)
		TEST_EQUAL(over->o_start(s, dump_it, NULL, &u[i]), 0);
	for (int i = 0; i < 4; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST_CASE(test_dump_by_threads, each_conf, dump_by_threads)

/* ---- While others run ---- */

static atomic_bool over_now;
static atomic_size_t dumped;

/* Two of these dump at the same time. */
static void *dump_on(void *file)
{
	size_t *dumps = calloc(1, sizeof *dumps);

	TEST_TRUE(dumps);
	for (; !over_now; ++*dumps) {
		TEST_EQUAL(uinspect_dump(fileno(file), *dumps % 2), 0);
		dumped += *dumps == 0;
	}
	return dumps;
}

static void with_dumps(void (*test)(void))
{
	FILE *nowhere = fopen("/dev/null", "w");
	pthread_t native[2];

	TEST_TRUE(nowhere);
	over_now = false;
	dumped = 0;
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(pthread_create(&native[i], NULL, dump_on, nowhere), 0);
	await_count(&dumped, 2);
	test();
	over_now = true;
	for (int i = 0; i < 2; i++) {
		void *dumps;

		TEST_EQUAL(pthread_join(native[i], &dumps), 0);
		TEST_TRUE(*(size_t *)dumps > 0);
		free(dumps);
	}
	fclose(nowhere);
}

/* An object that its waiter frees as soon as the wait is over. */
enum { AT_SEM, AT_GROUP, AT_RWLOCK, AT_MUTEX, AT_SLOW, KINDS, PAIRS = 8 };

struct object {
	int                 o_kind;
	struct usync_sem    o_sem;
	struct usync_group  o_group;
	struct usync_rwlock o_rwlock;
	struct usync_mutex  o_mutex;
	struct uwait_lock   o_lock;     /* of a primitive of its own */
	struct uwait_queue  o_queue;
	atomic_int          o_value;
};

enum { VALUE = 77, FREED = 1 };

/* Takes its time to describe the object, which is not freed meanwhile. */
static void tell_slowly(const struct uwaiter *w, struct ustack_why *why)
{
	struct object *o = (void *)(uintptr_t)w->w_object;

	nanosleep(&(struct timespec){ 0, 100000 }, NULL);
	TEST_EQUAL(o->o_value, VALUE);
	why->wy_how = " slowly";
}

static const struct uwait_kind slow = { .kd_name = "object", .kd_tell = tell_slowly };

static UWAIT_CALL int wait_slowly(struct object *o)
{
	struct uwaiter *w;

	w = uwait_prepare(USCHED_NEVER, false);
	TEST_EQUAL(uwait_error(w), 0);
	uwait_note(w, &slow, o, __builtin_return_address(0));
	uwait_lock(&o->o_lock);
	if (o->o_value == 0) {
		o->o_value = VALUE;
		return uwait_queue_up(w, &o->o_lock, &o->o_queue);
	}
	uwait_unlock(&o->o_lock);
	return 0;
}

static void free_object(struct object *o)
{
	memset(o, 0xdb, sizeof *o);
	free(o);
}

/* Frees what was waited for: the waiter does so on the processor that describes it. */
static void grant_slow(struct object *o)
{
	struct uwaiter *w;

	uwait_lock(&o->o_lock);
	w = uwait_pop(&o->o_queue);
	o->o_value = VALUE;
	uwait_unlock(&o->o_lock);
	if (!w)
		return;
	uwait_finish(w, FREED);
	free_object(o);
}

static struct pair {
	struct object   *p_object;
	struct usync_sem p_passed;
	struct usync_sem p_held;        /* its granter has it, if it can be had */
} pairs[PAIRS];
static size_t rounds;

static void wait_and_free(void *pair)
{
	struct pair *p = pair;

	for (size_t i = 0; i < rounds; i++) {
		struct object *o = calloc(1, sizeof *o);

		TEST_TRUE(o);
		o->o_kind = (int)(i % KINDS);
		TEST_EQUAL(usync_group_add(&o->o_group, 1), 0);
		p->p_object = o;
		TEST_EQUAL(usync_sem_post(&p->p_passed), 0);
		TEST_EQUAL(usync_sem_wait(&p->p_held, USCHED_NEVER), 0);
		if (o->o_kind == AT_SEM) {
			TEST_EQUAL(usync_sem_wait(&o->o_sem, USCHED_NEVER), 0);
		} else if (o->o_kind == AT_GROUP) {
			TEST_EQUAL(usync_group_wait(&o->o_group, USCHED_NEVER), 0);
		} else if (o->o_kind == AT_RWLOCK) {
			TEST_EQUAL(usync_rwlock_read(&o->o_rwlock, USCHED_NEVER), 0);
			TEST_EQUAL(usync_rwlock_unlock(&o->o_rwlock), 0);
		} else if (o->o_kind == AT_SLOW) {
			if (wait_slowly(o) == FREED)
				continue;
		} else {
			TEST_EQUAL(usync_mutex_lock(&o->o_mutex, USCHED_NEVER), 0);
			TEST_EQUAL(usync_mutex_unlock(&o->o_mutex), 0);
		}
		free_object(o);
	}
}

static void grant(struct pair *p, unsigned yields)
{
	struct object *o = p->p_object;
	int kind = o->o_kind;

	if (kind == AT_RWLOCK)
		TEST_EQUAL(usync_rwlock_write(&o->o_rwlock, 0), 0);
	if (kind == AT_MUTEX)
		TEST_EQUAL(usync_mutex_lock(&o->o_mutex, 0), 0);
	TEST_EQUAL(usync_sem_post(&p->p_held), 0);
	while (yields-- > 0)
		TEST_EQUAL(ustack_yield(), 0);
	if (kind == AT_SEM)
		TEST_EQUAL(usync_sem_post(&o->o_sem), 0);
	else if (kind == AT_GROUP)
		TEST_EQUAL(usync_group_done(&o->o_group), 0);
	else if (kind == AT_RWLOCK)
		TEST_EQUAL(usync_rwlock_unlock(&o->o_rwlock), 0);
	else if (kind == AT_SLOW)
		grant_slow(o);
	else
		TEST_EQUAL(usync_mutex_unlock(&o->o_mutex), 0);
}

static void grant_each(void *pair)
{
	struct pair *p = pair;

	for (size_t i = 0; i < rounds; i++) {
		TEST_EQUAL(usync_sem_wait(&p->p_passed, USCHED_NEVER), 0);
		grant(p, (unsigned)i % 7 * (i % KINDS == AT_SLOW ? 30 : 1));
	}
}

static void free_objects(void)
{
	const struct uprocs_conf conf = { .c_processors = 2, .c_stacks = 2 };
	void *s = make(&conf);
	struct ustack *u[2 * PAIRS];

	rounds = test_scale(4000, 40);
	for (int i = 0; i < PAIRS; i++) {
		TEST_EQUAL(over->o_start(s, wait_and_free, &pairs[i], &u[2 * i]), 0);
		TEST_EQUAL(over->o_start(s, grant_each, &pairs[i], &u[2 * i + 1]), 0);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST(test_freed_objects)
{
	with_dumps(free_objects);
}

/* Threads that start, wait, end, are cancelled, and move to other processors. */
static void be_cancelled(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(60 * USYNC_SECOND)), -ECANCELED);
}

static void live_briefly(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_yield(), 0);
	usync_sleep_until(usync_after(10000));
}

static void start_many(void *s)
{
	uint32_t seed = 7;

	for (size_t i = 0; i < rounds; i++) {
		struct ustack *u;
		char name[32];

		TEST_EQUAL(over->o_start(s, live_briefly, NULL, NULL), 0);
		TEST_EQUAL(over->o_start(s, be_cancelled, NULL, &u), 0);
		snprintf(name, sizeof name, "number %zu", i);
		TEST_EQUAL(ustack_name(u, name), 0);
		for (uint32_t n = test_random(&seed) % 4; n > 0; n--)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(ustack_cancel(u), 0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	}
}

static bool steals;

static void come_and_go(void)
{
	const struct uprocs_conf conf = { .c_processors = 2, .c_stay = !steals,
					  .c_stacks = steals ? 200 : 3 };
	void *s = make(&conf), *brief;
	struct ustack *u[3];

	rounds = test_scale(1500, 30);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(over->o_start(s, start_many, s, &u[i]), 0);
	for (size_t i = 0; i < test_scale(200, 10); i++) {
		TEST_EQUAL(over->o_create(&conf, &brief), 0);
		TEST_EQUAL(over->o_start(brief, live_briefly, NULL, NULL), 0);
		TEST_EQUAL(over->o_destroy(brief), 0);
	}
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST(test_come_and_go)
{
	for (int i = 0; i < 2; i++) {
		steals = i == 1;
		with_dumps(come_and_go);
	}
}

/* ---- Processors that do not answer ---- */

static atomic_int computes;
static struct calls own;

__attribute__((noinline)) static void compute_there(size_t size)
{
	volatile char *local = alloca(size);

	local[0] = 'c';
	test_take_calls(&own);
	for (computes = 1; computes != 2; )
		local[size - 1]++;
	TEST_EQUAL(local[0], 'c');
}

static void compute(void *unused)
{
	(void)unused;
	compute_there(300);
	computes = 0;
}

static void *start_computing(struct ustack **u, struct ustack **waits)
{
	const struct uprocs_conf conf = { .c_processors = 1 };
	void *s = make(&conf);

	computes = 0;
	TEST_EQUAL(over->o_start(s, wait_once, NULL, waits), 0);
	TEST_EQUAL(over->o_start(s, compute, NULL, u), 0);
	TEST_EQUAL(ustack_name(*u, "busy"), 0);
	while (!computes)
		sched_yield();
	return s;
}

static void end_computing(void *s, struct ustack *u, struct ustack *waits)
{
	computes = 2;
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	finish(waits);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST(test_no_answer)
{
	struct ustack *u, *waits;
	void *s = start_computing(&u, &waits);
	char *text = dump(0);

	TEST_TRUE(strstr(text, "processor 0.0: threads: 2, does not answer, shown: 0"));
	free(text);
	computes = 2;
	while (computes)
		sched_yield();
	text = dump_answered();
	TEST_TRUE(strstr(text, "processor 0.0: threads: ") && !strstr(text, "answer"));
	free(text);
	end_computing(s, u, waits);
}

/* What is written to standard error until `text' has come, or the other one. */
static char *standard_error(int sig, const char *text, const char *other)
{
	FILE *file = tmpfile();
	int before = dup(2);
	char *got = NULL;

	TEST_TRUE(file && dup2(fileno(file), 2) == 2);
	TEST_EQUAL(raise(sig), 0);
	while (!got || !(strstr(got, text) || strstr(got, other))) {
		FILE *same = fdopen(dup(fileno(file)), "r");

		free(got);
		sleep_ms(5);
		got = test_contents(same);
	}
	TEST_EQUAL(dup2(before, 2), 2);
	close(before);
	fclose(file);
	return got;
}

/* Whether the calls of a thread that runs are known. ThreadSanitizer calls handlers
   later; elsewhere the unwinder has to pass the frame of a signal. */
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__)) \
	&& !defined(USCHED_TSAN)
enum { HAS_CALLS = 1 };
#else
enum { HAS_CALLS = 0 };
#endif

TEST(test_signal)
{
	struct ustack *u, *waits;
	uintptr_t calls[FRAMES + 8];
	char *text, what[80];
	void *s;

	TEST_EQUAL(uinspect_install(0), -EINVAL);
	TEST_EQUAL(uinspect_install(SIGUSR2), 0);
	TEST_EQUAL(uinspect_install(SIGUSR2), 0);
	s = start_computing(&u, &waits);
	snprintf(what, sizeof what, ", runs thread %p \"busy\", function 0x%" PRIxPTR,
		 (void *)u, (uintptr_t)compute);
	text = standard_error(SIGUSR2, LATE, LATE);
	TEST_TRUE(strstr(text, what));
	if (test_has_stacks() && HAS_CALLS)
		compare(calls, calls_behind(strstr(text, what), calls), &own);
	free(text);
	computes = 2;
	while (computes)
		sched_yield();
	for (;;) {
		text = standard_error(SIGUSR2, "\n1 thread, function ", LATE);
		if (!strstr(text, LATE))
			break;
		free(text);
	}
	free(text);
	end_computing(s, u, waits);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
