/* SPDX-License-Identifier: MIT */
/* The pingpong workload: a coroutine of minicoro is resumed, and yields. */
#include "one.h"

static void count(mco_coro *self)
{
	size_t *given = mco_get_user_data(self);

	mco_yield(self);                        /* ready */
	for (*given = 0;; ++*given)
		mco_yield(self);
}

int main(int argc, char **argv)
{
	size_t pairs, given, sum = 0;
	mco_desc desc = mco_desc_init(count, 0);
	mco_coro *thread;
	double start;

	arguments(argc, argv, "PAIRS", &pairs);
	desc.user_data = &given;
	check(mco_create(&thread, &desc));
	check(mco_resume(thread));
	start = now();
	for (size_t i = 0; i < pairs; i++) {
		check(mco_resume(thread));
		sum += given;
	}
	print_seconds(now() - start, sum);
	check(mco_destroy(thread));
	return 0;
}
