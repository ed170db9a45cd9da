/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c: a fuzz target for the dispatcher alone: the random programs of
 * test_random.c, whose numbers are bytes of the input.
 */
#include "fuzz.h"

#include "../help/test.h"

int random_main(void);
static uint32_t input_random(uint32_t *from);

#define main        random_main
#define test_random input_random
#include "../usched/test_random.c"
#undef test_random

/* The seed of the program is the input; frames have numbers of their own. */
static uint32_t input_random(uint32_t *from)
{
	if (from != &seed)
		return test_random(from);
	if (fuzz_left == 0)
		steps = STEPS;                  /* it ends */
	return fuzz_take(256) << 8 | fuzz_take(256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_input = data;
	fuzz_left = size;
	one_program(1);
	return 0;
}
