/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE             /* dladdr */
#include "test.h"

#include <alloca.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../ustack.h"
#include "../../src/base/sim.h"
#include "../../src/core/stress.h"

uint32_t test_seed;

/* What a test opens first is not to become its standard input, should that be closed. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close(fd);
}

/* Who starts programs may ignore or block signals, and so do they, then. */
static void heed_signals(void)
{
	struct sigaction action;
	sigset_t none;

	for (int signo = 1; signo < SIGRTMIN; signo++)
		if (sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			signal(signo, SIG_DFL);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static __attribute__((constructor)) void begin(void)
{
	open_standard();
	heed_signals();
}

/* Of all schedulers; atomic. */
static uint64_t moves, preempted;

/* scripts/lib.sh adds up these lines. */
static __attribute__((destructor)) void print_counted(void)
{
	if (moves + preempted > 0)
		printf("[ COUNTED  ] moved %" PRIu64 ", preempted %" PRIu64 "\n", moves,
		       preempted);
}

void test_counted(const struct usched_stats *stats)
{
	__atomic_fetch_add(&moves, stats->st_moves, __ATOMIC_RELAXED);
	__atomic_fetch_add(&preempted, stats->st_preempted, __ATOMIC_RELAXED);
}

static void print_seed(void)
{
	char line[64];
	int n = snprintf(line, sizeof line, "USCHED_TEST_SEED=%" PRIu32 "\n", test_seed);

	if (test_seed && write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(2);
}

static size_t scale(void)
{
	const char *s = getenv("USCHED_TEST_SCALE");
	unsigned long n = s ? strtoul(s, NULL, 10) : 1;

	return n ? n : 1;
}

static void timed_out(int signo)
{
	static const char message[] = "test: timed out\n";

	(void)signo;
	if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
		_exit(2);
	print_seed();
	_exit(1);
}

/* In the order of their lines. */
static struct test *tests;

void test_enlist(struct test *test)
{
	struct test **at = &tests;

	while (*at && (*at)->t_line < test->t_line)
		at = &(*at)->t_next;
	test->t_next = *at;
	*at = test;
}

static void begin_test(void **state)
{
	const struct test *test = *state;

	test_timeout(120);
	test->t_func();
}

size_t test_cases(unsigned which, struct CMUnitTest **cases)
{
	struct test *test;
	size_t n = 0;

	*cases = NULL;
	for (test = tests; test; test = test->t_next) {
		if (which ? !(test->t_which & which) : test->t_which != 0)
			continue;
		*cases = realloc(*cases, (n + 1) * sizeof **cases);
		TEST_TRUE(*cases);
		(*cases)[n++] = (struct CMUnitTest){
			.name = test->t_name,
			.test_func = test->t_run ? test->t_run : begin_test,
			.initial_state = test->t_run ? test->t_state : test,
		};
	}
	return n;
}

int test_run_all(void)
{
	struct CMUnitTest *cases;
	size_t n = test_cases(~0u, &cases);
	int failed = _cmocka_run_group_tests("tests", cases, n, NULL, NULL);

	free(cases);
	return failed;
}

void test_timeout(unsigned seconds)
{
	if (SIMULATED)                  /* it has a limit of steps */
		return;
	signal(SIGALRM, timed_out);
	alarm(20 * seconds);
}

size_t test_scale(size_t n, size_t least)
{
	n /= scale();
	return n > least ? n : least;
}

int test_emulator_fails(const char *name)
{
	const char *at = getenv("USCHED_TEST_FAILS");
	size_t n = strlen(name);

	while (at && (at = strstr(at, name)) && at[n] != ' ' && at[n] != '\0')
		at += n;
	if (at)
		printf("[ this emulator is known for wrong %s ]\n", name);
	return at != NULL;
}

int test_is_scaled(void)
{
	return scale() > 1;
}

size_t test_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	size_t n = 0;
	int c;

	TEST_TRUE(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Bytes of this process: all, and those in memory. */
static void count_bytes(size_t *all, size_t *resident)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	TEST_TRUE(f);
	TEST_EQUAL(fscanf(f, "%zu %zu", all, resident), 2);
	fclose(f);
	*all *= page;
	*resident *= page;
}

size_t test_address_space(void)
{
	size_t all, resident;

	count_bytes(&all, &resident);
	return all;
}

size_t test_resident(void)
{
	size_t all, resident;

	count_bytes(&all, &resident);
	return resident;
}

char *test_contents(FILE *file)
{
	long size = lseek(fileno(file), 0, SEEK_END);
	char *text = malloc((size_t)size + 1);

	TEST_TRUE(text);
	TEST_EQUAL(pread(fileno(file), text, (size_t)size, 0), size);
	text[size] = '\0';
	fclose(file);
	return text;
}

size_t test_entries(const char *directory)
{
	DIR *d = opendir(directory);
	size_t n = 0;

	TEST_TRUE(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Those of a simulation are not in /proc. */
static size_t simulated_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

size_t test_descriptors(void)
{
	return SIMULATED ? simulated_descriptors() : test_entries("/proc/self/fd");
}

int test_on_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

int test_is_sanitized(void)
{
#if defined(USCHED_ASAN) || defined(USCHED_TSAN) || USCHED_HAS(memory_sanitizer)
	return 1;
#else
	return 0;
#endif
}

int test_is_single(void)
{
#ifdef SINGLE_THREAD
	return 1;
#else
	return 0;
#endif
}

int test_is_stressed(void)
{
	return stressed() || SIMULATED;
}

void __gcov_init(void *info) __attribute__((weak));
void __gmon_start__(void) __attribute__((weak));          /* of -pg */

int test_is_counted(void)
{
	return __gcov_init || __gmon_start__;
}

extern __typeof__(dladdr) dladdr __attribute__((weak));

int test_is_dynamic(void)
{
	Dl_info info;

	return dladdr && dladdr(&test_seed, &info) && info.dli_fname;
}

static struct ustack *no_next(struct usched *s)
{
	(void)s;
	return NULL;
}

static void *no_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	(void)size;
	return NULL;
}

static void no_free(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)image;
	(void)size;
}

static int has_stacks;

static void look_for_stacks(void)
{
	static char memory[16384];
	const struct usched_calls calls = {
		.s_next = no_next, .s_alloc = no_alloc, .s_free = no_free,
	};
	struct usched s;

	has_stacks = usched_init(&s, &calls) == 0
		&& usched_add_stack(&s, memory, sizeof memory) != -ENOTSUP;
}

int test_has_stacks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_for_stacks);
	return has_stacks;
}

uint32_t test_random(uint32_t *seed)
{
	uint32_t x = *seed ? *seed : 1;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *seed = x;
}

__attribute__((noinline))
void test_descend(uint32_t *seed, uint32_t depth, size_t most, void (*func)(void *),
		  void *arg)
{
	size_t size = 16 + test_random(seed) % most;
	char *local = alloca(size);
	char byte = (char)(*seed >> 8);

	memset(local, byte, size);
	if (depth > 0)
		test_descend(seed, depth - 1, most, func, arg);
	else
		func(arg);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(local[i], byte);
}

void test_equal(intmax_t a, intmax_t b, const char *what, const char *file,
		int line)
{
	if (a == b)
		return;
	fprintf(stderr, "%s:%d: %s: %" PRIdMAX " is not %" PRIdMAX "\n",
		file, line, what, a, b);
	print_seed();
	_exit(1);
}

enum { NATIVE_TRIES = 50, NATIVE_PAUSE = 100000 };      /* us */

/* The linker has calls of pthread_create() come here: tests.mk. */
extern __typeof__(pthread_create) __real_pthread_create __attribute__((weak));

int test_create_native(pthread_t *native, const pthread_attr_t *attr,
		       void *(*func)(void *), void *arg)
{
	int rc, tries = 0;

	while ((rc = __real_pthread_create(native, attr, func, arg)) == EAGAIN) {
		if (++tries == NATIVE_TRIES) {
			printf("[ SKIPPED! ] the machine has no native thread to give:"
			       " %s\n", strerror(rc));
			fflush(stdout);
			_exit(77);
		}
		usleep(NATIVE_PAUSE);
	}
	return rc;
}

/* Of programs that do not replace it themselves. */
extern __typeof__(pthread_create) __wrap_pthread_create __attribute__((weak));

int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg)
{
	return test_create_native(native, attr, func, arg);
}

int test_give_way(void)
{
	return ustack_self() ? ustack_yield() : sched_yield();
}

static int hold(struct dl_phdr_info *info, size_t size, void *holds)
{
	(void)info, (void)size;
	__atomic_store_n((bool *)holds, true, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return 1;
}

static void *hold_libraries(void *holds)
{
	dl_iterate_phdr(hold, holds);
	return NULL;
}

/* The native thread that has the lock does not end, so this is a process of its own. */
static _Noreturn void hold_and_fork(void (*func)(void))
{
	bool holds = false;
	pthread_t native;
	int status = -1;

	if (pthread_create(&native, NULL, hold_libraries, &holds))
		_exit(1);
	while (!__atomic_load_n(&holds, __ATOMIC_ACQUIRE))
		sched_yield();
	if (fork() == 0) {
		alarm(60);
		func();
		_exit(0);
	}
	wait(&status);
	_exit(status != 0);
}

void test_in_child_with_libraries_held(void (*func)(void))
{
	int status = -1;
	pid_t child;

	if (test_emulator_fails("forks"))
		return;
	child = fork();
	if (child == 0)
		hold_and_fork(func);
	TEST_EQUAL(waitpid(child, &status, 0), child);
	TEST_EQUAL(status, 0);
}
