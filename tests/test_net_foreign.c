/* SPDX-License-Identifier: MIT */
/* test_net_foreign.c: net.h over a scheduler that is not ours. */
#define _GNU_SOURCE
#include "foreign.h"

#define SCHED foreign
#define START(s, func, arg, thread) foreign_start(s, func, arg, thread)
#include "net.h"

int main(void)
{
	const struct CMUnitTest tests[] = { NET_TESTS };

	return cmocka_run_group_tests_name("net_foreign", tests, NULL, NULL);
}
