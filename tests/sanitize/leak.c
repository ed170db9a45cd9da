/* SPDX-License-Identifier: MIT */
/*
 * The program exits while threads are blocked that have pointers to what they allocated
 * in their frames, and nowhere else: that is no leak. A pointer that was overwritten is
 * one.
 *
 * leak: Direct leak of 1234 byte in allocate
 * memcheck: 1,234 bytes in 1 blocks are definitely lost in allocate
 */
#include "plant.h"

enum { SIZE = 1234, SHALLOW = 10, DEEP = 5000 };        /* bytes */

static struct ustack *holder[2];

static __attribute__((noinline)) void *allocate(void)
{
	return malloc(SIZE);                    /* HERE */
}

/*
 * Leaves copies of the pointer below the caller's frame, as malloc() does where its
 * library is bound at the start. AddressSanitizer would move the array to a fake stack.
 */
static __attribute__((noinline, no_sanitize_address)) void strew(void *allocated)
{
	void *volatile frame[DEEP / sizeof(void *)];

	for (size_t i = 0; i < DEEP / sizeof(void *); i++)
		frame[i] = allocated;
	EXPECT(frame[0] == allocated);
}

/* Overwrites the copies; on the same stack for the same reason. */
static __attribute__((noinline, no_sanitize_address)) void wipe(void)
{
	volatile char frame[4 * DEEP];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = 0;
	EXPECT(frame[DEEP] == 0);
}

static __attribute__((noinline)) void hold(size_t below, void *volatile allocated)
{
	volatile char frame[below];

	frame[0] = 0;
	check(ustack_wait());
	free(frame[0] == 0 ? allocated : NULL);
}

/* The shallow one's frames fit its record, the deep one's do not. */
static void thread(void *arg)
{
	size_t below = *(const size_t *)arg;
	void *volatile allocated = allocate();

	strew(allocated);
	if (wrong && below == SHALLOW)
		allocated = NULL;
	wipe();
	hold(below, allocated);
}

/* Until the frames of both are somewhere else, and its own are where they were. */
static void leave(void *arg)
{
	bystander(arg);
	exit(0);
}

int main(int argc, char **argv)
{
	static const size_t depths[] = { SHALLOW, DEEP };
	struct uprocs_conf conf = configure(argc, argv);
	struct ustack *last;
	struct uprocs *rr;

	check(rr_create(&conf, &rr));
	for (int i = 0; i < 2; i++)
		check(rr_start(rr, thread, (void *)(uintptr_t)&depths[i], &holder[i]));
	check(rr_start(rr, leave, NULL, &last));
	check(ustack_join(last, NULL, USCHED_NEVER));
	return 2;
}
