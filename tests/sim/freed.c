/* SPDX-License-Identifier: MIT */
/*
 * freed.c: uses of heap memory, compiled with -fsanitize=thread. Without an argument all
 * are right. An argument names what is wrong: a use after free(), of another thread or of
 * the same one, or a use beside a block.
 */
#include <malloc.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

struct data {
	long unused[4];
	int  value;
};

static struct data *data;
static const char *wrong = "";

static int is(const char *name)
{
	return strcmp(wrong, name) == 0;
}

static void *use(void *unused)
{
	struct data *d = __atomic_load_n(&data, __ATOMIC_ACQUIRE);
	volatile int value = d->value;

	(void)unused;
	(void)value;
	return NULL;
}

static __attribute__((noinline)) void share(void)
{
	struct data *next = calloc(1, sizeof *next), *old = calloc(1, sizeof *old);
	pthread_t t;

	data = old;
	t = started(use, NULL);
	__atomic_store_n(&data, next, __ATOMIC_RELEASE);
	if (is("thread"))
		free(old);
	CHECK(pthread_join(t, NULL) == 0);
	if (!is("thread"))
		free(old);
	free(next);
}

static sem_t done;

/* Says that it is done, and then it is wrong that the data are used. */
static void *tell(void *d)
{
	volatile int value = is("late") ? 0 : ((struct data *)d)->value;

	sem_post(&done);
	if (is("late"))
		value = ((struct data *)d)->value;
	(void)value;
	return NULL;
}

static __attribute__((noinline)) void hand_over(void)
{
	struct data *d = calloc(1, sizeof *d);
	pthread_t t;

	sem_init(&done, 0, 0);
	t = started(tell, d);
	sem_wait(&done);
	free(d);
	CHECK(pthread_join(t, NULL) == 0);
}

/* More than what is kept aside. */
static void fill(void)
{
	for (size_t i = 0; i < 20000; i++) {
		volatile char *new = calloc(1, i % 1000 + 1);

		CHECK(new && new[i % 1000] == 0);
		new[i % 1000] = 1;
		free((void *)new);
	}
}

static void *volatile unknown;          /* hides from the compiler what is wrong */

static char *hidden(char *block)
{
	unknown = block;
	return unknown;
}

int main(int argc, char **argv)
{
	char *a = malloc(15), *b = hidden(a), *c;

	if (argc > 1)
		wrong = argv[1];
	share();
	hand_over();
	fill();
	memset(b, 'x', 15);
	CHECK(malloc_usable_size(a) >= 15);
	if (is("after"))
		((volatile char *)b)[15] = 'x';
	if (is("before"))
		((volatile char *)b)[-1] = 'x';
	if (is("memset"))
		memset(b, 'x', 15 + strlen(wrong));
	if (is("strlen"))
		CHECK(strlen(b) > 15);
	a = realloc(a, 1000000);
	CHECK(a && memcmp(a, "xxxxxxxxxxxxxxx", 15) == 0);
	if (is("realloc"))
		((volatile char *)b)[1] = 'x';
	c = aligned_alloc(4096, 8192);
	CHECK((uintptr_t)c % 4096 == 0);
	memcpy(c, a, 8192);
	free(hidden(c));
	if (is("twice"))
		free(unknown);
	if (is("middle"))
		free(hidden(a + 16));
	free(a);
	return 0;
}
