/* SPDX-License-Identifier: MIT */
/* test_net_rr.c: net.h over round robin. */
#define _GNU_SOURCE
#include "../rr.h"

#define SCHED rr
#define START(s, func, arg, thread) rr_start(s, func, arg, thread)
#include "net.h"

int main(void)
{
	const struct CMUnitTest tests[] = { NET_TESTS };

	return cmocka_run_group_tests_name("net_rr", tests, NULL, NULL);
}
