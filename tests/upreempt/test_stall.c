/* SPDX-License-Identifier: MIT */
/*
 * test_stall.c: what is said of threads that keep their processor, c_stall: the messages,
 * their number, and that there are none of others. No test needs a machine that is quick:
 * a thread keeps its processor until the message has come.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../help/procs.h"

#include "../../arch/arch.h"
#include "../../debug/ustall.h"
#include "../../usync.h"

enum {
	LIMIT   = 2000000,              /* ns */
	LINES   = 512,
	DOUBLED = 5,                    /* messages of one stretch */
	SELDOM  = 10000000,             /* ns: a limit that short turns do not come to, */
	TURNS   = 8,                    /* in as many times that */
	STRETCHES = 10,
};

#define PATIENCE ((int64_t)60 * 1000000000)      /* ns: machines are busy */

#if defined(SINGLE_THREAD) || defined(USCHED_TSAN)
enum { MONITORED = 0 };
#else
enum { MONITORED = 1 };
#endif

#ifdef USCHED_CHECK
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static char said_lines[LINES][256];     /* by c_log, from one native thread */
static atomic_uint lines;

static void keep_line(const char *line)
{
	unsigned n = lines;

	if (n < LINES) {
		snprintf(said_lines[n], sizeof said_lines[n], "%s", line);
		lines = n + 1;
	}
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The number of lines with both texts. */
static unsigned count(const char *a, const char *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < lines; i++)
		n += strstr(said_lines[i], a) && strstr(said_lines[i], b);
	return n;
}

static unsigned messages(void)
{
	return count("usched: stall: thread ", " has kept processor ");
}

static int64_t end_of_test;

static bool is_in_time(void)
{
	return now() < end_of_test;
}

static void begin_test(void)
{
	lines = 0;
	end_of_test = now() + PATIENCE;
}

static void *begin(unsigned processors, unsigned limit)
{
	struct uprocs_conf conf = { .c_processors = processors, .c_stall = limit,
				    .c_log = keep_line };
	void *s;

	begin_test();
	TEST_EQUAL(over->o_create(&conf, &s), 0);
	return s;
}

/* Each message is waited for, but where no monitor runs. */
static void must_be_told(void)
{
	test_timeout(60);
	if (MONITORED && !test_on_valgrind())
		return;
	print_message("there is no monitor here\n");
	skip();
}

/* The first test: the others need it. */
TEST(test_install)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = LIMIT };
	static bool installed;
	void *s;

	if (MONITORED && !CHECKED && !installed)
		TEST_EQUAL(over->o_create(&conf, &s), -ENOTSUP);
	installed = true;
	ustall_install();
	TEST_EQUAL(over->o_create(&conf, &s), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

/* ---- Threads ---- */

static volatile unsigned sink;

static void compute(void)
{
	for (unsigned i = 0; i < 10000; i++)
		sink += i;
}

/* Whether /proc has the registers of an emulator, or nothing. */
static bool is_emulated(void)
{
	FILE *file = fopen("/proc/self/syscall", "r");
	char text[8] = "";
	bool known;

	if (!file)
		return true;
	known = fgets(text, sizeof text, file) != NULL;
	fclose(file);
	return !known || test_is_scaled();
}

/* Until there are so many messages with that text. */
struct until {
	const char *u_text;
	unsigned    u_count;
};

static void compute_until(void *until)
{
	const struct until *u = until;

	while (count("usched: stall: ", u->u_text) < u->u_count && is_in_time())
		compute();
}

/* A signal would end it. */
static void sleep_native(void *until)
{
	const struct until *u = until;

	while (count("usched: stall: ", u->u_text) < u->u_count && is_in_time()) {
		struct timespec t = { 0, 20 * LIMIT };

		TEST_EQUAL(nanosleep(&t, NULL), 0);
	}
}

static uint32_t sleepers_word;

/* By c_log: the thread that waits for a futex goes on after a report with its callers, or
   after the tenth report without. */
static void keep_line_and_wake(const char *line)
{
	keep_line(line);
	if (count("usched:   0x", " wait_native)") == 0 && messages() < 10)
		return;
	__atomic_store_n(&sleepers_word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &sleepers_word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* A wait without a time: no signal ends it. */
static void wait_native(void *unused)
{
	(void)unused;
	while (__atomic_load_n(&sleepers_word, __ATOMIC_SEQ_CST) == 0)
		TEST_TRUE(syscall(SYS_futex, &sleepers_word, FUTEX_WAIT, 0, NULL, NULL,
				  0) == 0 || errno == EAGAIN);
}

/* Short turns: it never keeps the processor for a hundredth of the limit. */
static void short_turns(void *yields)
{
	for (int64_t end = now() + TURNS * (int64_t)SELDOM; now() < end; ) {
		compute();
		TEST_EQUAL(yields ? ustack_yield()
			   : usync_sleep_until(usync_after(10000)), 0);
	}
}

static void run(void *s, void (*func)(void *), void *arg, const char *name)
{
	struct ustack *thread;

	TEST_EQUAL(over->o_start(s, func, arg, &thread), 0);
	if (name)
		TEST_EQUAL(ustack_name(thread, name), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
}

/* ---- Tests ---- */

TEST(test_computes)
{
	struct until until = { "\"squeeze\"", 1 };
	void *s;

	must_be_told();
	s = begin(1, LIMIT);
	run(s, compute_until, &until, "squeeze");
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_TRUE(count("\"squeeze\", function 0x", "processor 0 for ") >= 1);
	TEST_TRUE(count("\"squeeze\"", ": it computes") >= 1);
	TEST_TRUE(count("\"squeeze\", function 0x", " compute_until), has kept") >= 1);
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
	if (usched__pc_at > 0 && !test_is_sanitized())
		TEST_TRUE(count("usched:   0x", " compute_until)") > 0);
#endif
}

/* On a CPU that another native thread of the test wants, too. */
static atomic_bool hog_ends;

static void share_cpu(void)
{
	cpu_set_t all, one;
	size_t cpu = 0;

	TEST_EQUAL(sched_getaffinity(0, sizeof all, &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	TEST_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
}

/* Whether /proc has the times for which native threads wait for a CPU. */
static bool knows_waits(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	long long ran = 0;
	bool known = file && fscanf(file, "%lld", &ran) == 1 && ran > 0;

	if (file)
		fclose(file);
	return known;
}

static void *hog(void *unused)
{
	share_cpu();
	while (!hog_ends)
		compute();
	return unused;
}

static void compute_beside(void *stretches)
{
	share_cpu();
	for (unsigned i = 0; i < (uintptr_t)stretches && is_in_time(); i++) {
		unsigned before = count("usched: stall: ", "it computes");

		while (count("usched: stall: ", "it computes") == before && is_in_time())
			compute();
		TEST_EQUAL(ustack_yield(), 0);
	}
}

/* What others had of the CPU is not said of the thread: it has computed for so long. */
TEST(test_shares)
{
	pthread_t native;
	unsigned told = 0;
	void *s;

	must_be_told();
	if (!knows_waits())
		skip();
	hog_ends = false;
	TEST_EQUAL(pthread_create(&native, NULL, hog, NULL), 0);
	s = begin(1, SELDOM);
	run(s, compute_beside, (void *)(uintptr_t)STRETCHES, "beside");
	TEST_EQUAL(over->o_destroy(s), 0);
	hog_ends = true;
	TEST_EQUAL(pthread_join(native, NULL), 0);
	for (unsigned i = 0; i < lines; i++) {
		const char *at = strstr(said_lines[i], " ms of that on a CPU: it comp");

		if (!at)
			continue;
		while (at[-1] != ' ')
			at--;
		TEST_TRUE(strtol(at, NULL, 10) >= SELDOM / 1000000);
		told++;
	}
	TEST_TRUE(told >= STRETCHES);
}

TEST(test_sleeps)
{
	struct until until = { is_emulated() ? "\"lazy\"" : ": it sleeps in ", 1 };
	void *s;

	must_be_told();
	s = begin(1, LIMIT);
	run(s, sleep_native, &until, "lazy");
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_TRUE(count("\"lazy\"", until.u_text) > 0);
}

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
/* A wait for a futex, as those of pthread.h, is shown with its callers, and goes on. */
TEST(test_futex)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = LIMIT,
				    .c_log = keep_line_and_wake };
	void *s;

	must_be_told();
	if (is_emulated() || usched__pc_at <= 0 || test_is_sanitized())
		skip();
	begin_test();
	sleepers_word = 0;
	TEST_EQUAL(over->o_create(&conf, &s), 0);
	run(s, wait_native, NULL, "waits");
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_TRUE(count("\"waits\"", ": it sleeps in ") > 0);
	TEST_TRUE(count("usched:   0x", " wait_native)") > 0);
}
#endif

/* Each message of a stretch comes after twice the time of the one before at least. */
TEST(test_doubles)
{
	struct until until = { "\"long\"", DOUBLED };
	long before = 0;
	int64_t began;
	void *s;

	must_be_told();
	s = begin(1, LIMIT);
	began = now();
	run(s, compute_until, &until, "long");
	TEST_EQUAL(over->o_destroy(s), 0);
	for (unsigned i = 0; i < lines; i++) {
		const char *at = strstr(said_lines[i], " has kept processor 0 for ");
		long ms = at ? strtol(at + 26, NULL, 10) : 0;

		if (!at)
			continue;
		TEST_TRUE(ms >= LIMIT / 1000000 && ms >= before);
		TEST_TRUE(ms <= (now() - began) / 1000000);
		before = ms;
	}
	TEST_TRUE(before >= LIMIT / 1000000 << (DOUBLED - 1));
}

TEST(test_several)
{
	static struct until untils[] = {
		{ "\"one\"", 1 }, { "\"two\"", 1 }, { "\"three\"", 1 }
	};
	static const char *const names[] = { "one", "two", "three" };
	struct ustack *threads[3];
	void *s;

	must_be_told();
	s = begin(3, LIMIT);
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(over->o_start(s, i == 1 ? sleep_native : compute_until,
					 &untils[i], &threads[i]), 0);
		TEST_EQUAL(ustack_name(threads[i], names[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
	for (int i = 0; i < 3; i++)
		TEST_TRUE(count("stall", untils[i].u_text) >= 1);
}

/* What is said while `n' threads have short turns. */
static unsigned lines_of_short_turns(uintptr_t n, bool yield)
{
	struct ustack *threads[4];
	void *s = begin(1, SELDOM);

	for (uintptr_t i = 0; i < n; i++)
		TEST_EQUAL(over->o_start(s, short_turns, (void *)(uintptr_t)yield,
					 &threads[i]), 0);
	for (uintptr_t i = 0; i < n; i++)
		TEST_EQUAL(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
	for (unsigned i = 0; i < lines; i++)
		print_message("%s\n", said_lines[i]);
	return lines;
}

/*
 * Threads that block and yield, alone or with others, are none that keep a processor. The
 * kernel may keep one from it for as long, amid its turn: then once more.
 */
TEST(test_none)
{
	int64_t end = now() + PATIENCE;

	for (unsigned round = 0; round < 4; round++)
		while (lines_of_short_turns(round / 2 ? 4 : 1, round % 2))
			TEST_TRUE(now() < end);
}

/* With slices there is one monitor for both, and a handler on the thread's own stack. */
static void give_way(void *unused)
{
	(void)unused;
	while (usched__here()->s_stats.st_preempted == 0 && is_in_time()) {
		compute();
		TEST_EQUAL(ustack_check(), 0);
	}
}

TEST(test_slices)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_slice = 100000,
				    .c_stall = LIMIT, .c_log = keep_line };
	struct until until = { "\"alone\"", 1 };
	struct usched_stats stats;
	struct ustack *threads[2];
	void *s;

	must_be_told();
	begin_test();
	TEST_EQUAL(over->o_create(&conf, &s), 0);
	TEST_EQUAL(over->o_start(s, give_way, NULL, &threads[0]), 0);
	TEST_EQUAL(over->o_start(s, compute_until, &until, &threads[1]), 0);
	TEST_EQUAL(ustack_name(threads[1], "alone"), 0);
	TEST_EQUAL(ustack_join(threads[0], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_join(threads[1], NULL, USCHED_NEVER), 0);
	over->o_stats(s, &stats);
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_TRUE(messages() >= 1);
	TEST_TRUE(stats.st_preempted > 0);
}

/* ---- Locks that the thread holds ---- */

/* What is written to standard error, while this is a pipe. */
static int reader, standard_error;
static volatile bool seen;

static void look_for_message(void)
{
	char text[8192];
	ssize_t n = read(reader, text, sizeof text - 1);

	if (n > 0) {
		text[n] = '\0';
		seen |= strstr(text, "usched: stall: thread ") != NULL;
	}
	compute();
}

static void take_standard_error(void)
{
	int ends[2];

	TEST_EQUAL(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	standard_error = dup(STDERR_FILENO);
	TEST_TRUE(dup2(ends[1], STDERR_FILENO) >= 0);
	close(ends[1]);
	reader = ends[0];
	seen = false;
}

static void give_standard_error(void)
{
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	close(reader);
}

/* The dynamic linker's, which is taken to find the names of functions. */
static int keep_linker(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)info;
	(void)size;
	(void)unused;
	while (!seen && is_in_time())
		look_for_message();
	return 1;
}

static void hold_linker(void *unused)
{
	dl_iterate_phdr(keep_linker, unused);
}

/* Of malloc(): others wait there for the thread. */
static atomic_int malloc_held;
static atomic_int keeps_names;          /* the holder's next call has to wait */
static pthread_t malloc_holder;

#if defined(__GLIBC__) && !defined(USCHED_ASAN) && !USCHED_HAS(memory_sanitizer) \
	&& !defined(USCHED_TSAN)
enum { MALLOC_OURS = 1 };
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void  __libc_free(void *p);

static void wait_for_malloc(void)
{
	while (keeps_names && pthread_equal(malloc_holder, pthread_self())) {
		keeps_names = !seen && is_in_time();
		look_for_message();
	}
	while (malloc_held && !pthread_equal(malloc_holder, pthread_self()))
		syscall(SYS_sched_yield);
}

void *malloc(size_t size)
{
	wait_for_malloc();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	wait_for_malloc();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	wait_for_malloc();
	return __libc_realloc(p, size);
}

void free(void *p)
{
	wait_for_malloc();
	__libc_free(p);
}
#else
enum { MALLOC_OURS = 0 };
#endif

static void hold_malloc(void *unused)
{
	(void)unused;
	malloc_holder = pthread_self();
	malloc_held = 1;
	while (!seen && is_in_time())
		look_for_message();
	malloc_held = 0;
}

/* The lock of names, too: the reporter waits for that, and the monitor writes. */
static void hold_names(void *unused)
{
	(void)unused;
	malloc_holder = pthread_self();
	keeps_names = 1;
	TEST_EQUAL(ustack_name(ustack_self(), "keeper"), 0);
	TEST_EQUAL(keeps_names, 0);
}

/* The message comes while the thread has the lock. */
static void with_lock(void (*func)(void *))
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = LIMIT };
	void *s;

	begin_test();
	take_standard_error();
	TEST_EQUAL(over->o_create(&conf, &s), 0);
	run(s, func, NULL, NULL);
	TEST_EQUAL(over->o_destroy(s), 0);
	give_standard_error();
	TEST_TRUE(seen);
}

TEST(test_linker)
{
	must_be_told();
	with_lock(hold_linker);
}

TEST(test_allocator)
{
	must_be_told();
	if (!MALLOC_OURS)
		skip();
	with_lock(hold_malloc);
	with_lock(hold_names);
}

/* ---- Configurations ---- */

static void *create(const struct uprocs_conf *conf)
{
	void *s;

	TEST_EQUAL(over->o_create(conf, &s), 0);
	return s;
}

/* Native threads of this process. Joined ones are listed for a while, under qemu long. */
static size_t natives(void)
{
	size_t last, n = 0;

	do {
		last = n;
		usleep(50000);
		n = test_entries("/proc/self/task");
	} while (n != last);
	return n - 2;
}

/*
 * How many a scheduler has. The kernel lists joined ones until it has run them once more,
 * which may take long: another number than expected is counted again.
 */
static size_t natives_of(const struct uprocs_conf *conf, size_t expected)
{
	size_t before, n;
	void *s;

	begin_test();
	do {
		before = natives();
		s = create(conf);
		n = natives() - before;
		TEST_EQUAL(over->o_destroy(s), 0);
	} while (n != expected && is_in_time());
	return n;
}

TEST(test_conf)
{
	struct uprocs_conf quiet = { .c_processors = 1, .c_stall = USCHED_QUIET };
	struct uprocs_conf given = { .c_processors = 1, .c_stall = 1000000 };
	struct uprocs_conf most = { .c_processors = 1, .c_stall = (int64_t)1 << 62 };
	struct uprocs_conf less = { .c_processors = 1, .c_stall = 999999 };
	struct uprocs_conf standard = { .c_processors = 1 };
	void *s;

	TEST_EQUAL(over->o_create(&less, &s), -EINVAL);
	s = create(&quiet);
	TEST_EQUAL(over->o_destroy(s), 0);
	must_be_told();
	TEST_EQUAL(natives_of(&quiet, 1), 1);
	TEST_EQUAL(natives_of(&given, 3), 3);           /* a monitor, and a reporter */
	TEST_EQUAL(natives_of(&most, 3), 3);
	over_stalls = true;
	TEST_EQUAL(natives_of(&standard, 1 + 2 * CHECKED), 1 + 2 * CHECKED);
	over_stalls = false;
}

/* Without reports: no monitor is there. */
TEST(test_embedded)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = LIMIT, .c_embed = 1,
				    .c_log = keep_line };
	void *s;

	TEST_EQUAL(natives_of(&conf, 0), 0);
	s = create(&conf);
	run(s, short_turns, NULL, NULL);
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_EQUAL(lines, 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
