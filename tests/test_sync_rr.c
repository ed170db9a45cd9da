/* SPDX-License-Identifier: MIT */
/* test_sync_rr.c: sync.h over round robin. */
#include "../rr.h"

#define SCHED rr
#define START(s, func, arg, thread) rr_start(s, func, arg, thread)
#define PROCESSORS 4
#include "sync.h"
#include "report.h"

int main(void)
{
	const struct CMUnitTest tests[] = { SYNC_TESTS, REPORT_TESTS };

	return cmocka_run_group_tests_name("sync_rr", tests, NULL, NULL);
}
