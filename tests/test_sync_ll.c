/* SPDX-License-Identifier: MIT */
/* test_sync_ll.c: sync.h over the local scheduler. */
#include "../ll.h"

#define SCHED ll
#define START(s, func, arg, thread) ll_start(s, ll_group(s), func, arg, thread)
#define PROCESSORS 4
#include "sync.h"
#include "report.h"

int main(void)
{
	const struct CMUnitTest tests[] = { SYNC_TESTS, REPORT_TESTS };

	return cmocka_run_group_tests_name("sync_ll", tests, NULL, NULL);
}
