/* SPDX-License-Identifier: MIT */
/* test.h: what all test programs include. */
#ifndef USCHED_TEST_H
#define USCHED_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/*
 * Defines a test of the program, as TEST(test_order) { ... }. main() runs all of them in
 * their order, by test_run_all(), or by over_all() of over.h: over each scheduler, over
 * those of `which', bits of OVER_ALL, or once.
 */
#define TEST(name)      TEST_OVER(~0u, name)
#define TEST_ONCE(name) TEST_OVER(0, name)
#define TEST_OVER(which, name)                                          \
	static void name(void);                                         \
	static __attribute__((constructor)) void name##_is_there(void)  \
	{                                                               \
		static struct test test = {                             \
			#name, name, which, __LINE__, NULL, NULL, NULL  \
		};                                                      \
									\
		test_enlist(&test);                                        \
	}                                                               \
	static void name(void)

/* Defines a case of cmocka that calls run() with a `struct type' of these members. */
#define TEST_BY(run, name, type, ...) TEST_BY_AT(__LINE__, run, name, type, __VA_ARGS__)
#define TEST_BY_AT(line, ...)         TEST_BY_LINE(line, __VA_ARGS__)
#define TEST_BY_LINE(line, run, name, type, ...)                        \
	static __attribute__((constructor)) void is_there_##line(void)  \
	{                                                               \
		static struct type state = { __VA_ARGS__ };             \
		static struct test test = {                             \
			name, NULL, ~0u, line, NULL, run, &state        \
		};                                                      \
									\
		test_enlist(&test);                                     \
	}

/* Of TEST(): t_func; of TEST_BY(): t_run, and its state. */
struct test {
	const char  *t_name;
	void       (*t_func)(void);
	unsigned     t_which;
	int          t_line;
	struct test *t_next;
	void       (*t_run)(void **state);
	void        *t_state;
};

void test_enlist(struct test *test);

/* What main() returns. */
int test_run_all(void);

/* Cases of cmocka, to be freed, for the tests over one of these; 0: that run once. */
size_t test_cases(unsigned which, struct CMUnitTest **cases);

/*
 * Ends the program with a message and status 1 if it runs longer than twenty times
 * `seconds', which should be enough: machines may be busy, or simulated. A test that
 * hangs is a test that fails. Each begins with 120; a longer one calls this first.
 */
void test_timeout(unsigned seconds);

/*
 * n divided by USCHED_TEST_SCALE, a number in the environment, but at least
 * `least': for the large counts of tests that also run under slow machines.
 */
size_t test_scale(size_t n, size_t least);

/* Whether counts are divided: valgrind and emulators map memory in their own way. */
int test_is_scaled(void);

/* For X_start_with(): a how with these members; on processor `n'; for a descriptor. */
#define TEST_HOW(...)     (&(struct ustack_how){ __VA_ARGS__ })
#define TEST_ON(n)        TEST_HOW(.h_processor = USCHED_ON(n))
#define TEST_FD(func, fd) TEST_HOW(.h_serve = (func), .h_fd = (fd))

/* Mappings, bytes of address space, those in memory, and open descriptors. */
size_t test_mappings(void);
size_t test_address_space(void);
size_t test_resident(void);
size_t test_descriptors(void);

/* Entries of a directory, "." and ".." included. */
size_t test_entries(const char *directory);

/* Whether valgrind runs this. */
int test_on_valgrind(void);

/*
 * Whether an emulator runs this that is known to fail in this: scripts/matrix.sh lists
 * such faults, in USCHED_TEST_FAILS of the environment.
 */
int test_emulator_fails(const char *name);

/* Whether a sanitizer is in here, which adds instructions, memory and time. */
int test_is_sanitized(void);

/* Whether threads run in any order; under stress each block evicts: src/core/stress.h. */
int test_is_stressed(void);

/* SINGLE_THREAD: threads run inside joins, not beside the native thread that tests. */
int test_is_single(void);

/* Whether gcov or gprof counts what runs, by atomic instructions. */
int test_is_counted(void);

/* Whether the dynamic linker names functions, as it does not in static programs. */
int test_is_dynamic(void);

/* Whether threads can have stacks other than the native one here. */
int test_has_stacks(void);

/* For the line that the program prints at its end: threads that moved and gave way. */
struct usched_stats;
void test_counted(const struct usched_stats *stats);

/*
 * As pthread_create(), whose calls in programs of tests.mk come here. While the machine
 * has no native thread to give, the call tries again, for seconds; then the program is
 * skipped: the status is 77.
 */
int test_create_native(pthread_t *native, const pthread_attr_t *attr,
		       void *(*func)(void *), void *arg);

/* Lets others run: a thread yields, and so does a native thread. 0. */
int test_give_way(void);

/*
 * A number of the sequence that starts at `seed'; the same everywhere. (Marsaglia's
 * xorshift, Journal of Statistical Software 8(14), 2003.)
 */
uint32_t test_random(uint32_t *seed);

/*
 * Calls func(arg) below `depth' calls, whose frames have up to `most' bytes of locals.
 * Their content is checked afterwards.
 */
void test_descend(uint32_t *seed, uint32_t depth, size_t most, void (*func)(void *),
		  void *arg);

/*
 * Runs func() in a child of a process one of whose native threads has libc's lock of the
 * list of libraries: the lock stays closed there. Fails if func() does not return.
 */
void test_in_child_with_libraries_held(void (*func)(void));

/* All of a file, to be freed. Closes it. */
char *test_contents(FILE *file);

/* Defines a test that calls each(body). */
#define TEST_CASE(name, each, body)             \
	TEST(name)                              \
	{                                       \
		each(body);                     \
	}

/* A random test's seed: printed when something fails or times out, if not 0. */
extern uint32_t test_seed;

/* Like assert_int_equal(), for use in threads and from any native thread. */
#define TEST_EQUAL(a, b) test_equal((intmax_t)(a), (intmax_t)(b), #a " == " #b, \
				    __FILE__, __LINE__)
/* Likewise for conditions. */
#define TEST_TRUE(a) test_equal(!!(a), 1, #a, __FILE__, __LINE__)

/*
 * cmocka's own assertions jump out of the test, which a thread that is not
 * cmocka's must not do: this ends the program with a message and status 1.
 */
void test_equal(intmax_t a, intmax_t b, const char *what, const char *file,
		int line);

#endif /* USCHED_TEST_H */
