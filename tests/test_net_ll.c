/* SPDX-License-Identifier: MIT */
/* test_net_ll.c: net.h over the local scheduler. */
#define _GNU_SOURCE
#include "../ll.h"

#define SCHED ll
#define START(s, func, arg, thread) ll_start(s, ll_group(s), func, arg, thread)
#include "net.h"

int main(void)
{
	const struct CMUnitTest tests[] = { NET_TESTS };

	return cmocka_run_group_tests_name("net_ll", tests, NULL, NULL);
}
