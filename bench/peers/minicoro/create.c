/* SPDX-License-Identifier: MIT */
/*
 * The create workload: a coroutine of minicoro is made, yields and is destroyed. Its
 * memory, with the stack, is kept for the next one; from calloc(), which clears it, each
 * takes much longer.
 */
#include "one.h"

struct given {
	size_t number, given;
};

static void *kept;

static void *take(size_t size, void *unused)
{
	void *memory = kept;

	(void)unused;
	kept = NULL;
	return memory ? memory : malloc(size);
}

static void keep(void *memory, void *unused)
{
	(void)unused;
	kept = memory;
}

static void give(mco_coro *self)
{
	struct given *g = mco_get_user_data(self);

	g->given = g->number;
	mco_yield(self);
}

int main(int argc, char **argv)
{
	mco_desc desc = mco_desc_init(give, 0);
	struct given g = { 0, 0 };
	size_t threads, sum = 0;
	mco_coro *thread;
	double start;

	arguments(argc, argv, "THREADS", &threads);
	desc.malloc_cb = take;
	desc.free_cb = keep;
	desc.user_data = &g;
	start = now();
	for (; g.number < threads; g.number++) {
		check(mco_create(&thread, &desc));
		check(mco_resume(thread));
		sum += g.given;
		check(mco_destroy(thread));
	}
	print_seconds(now() - start, sum);
	free(kept);
	return 0;
}
