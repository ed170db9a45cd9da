/* SPDX-License-Identifier: MIT */
/*
 * test_quota.c: the CPUs that control groups allow, read from files made here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/proc/policy.h"
#include "../help/test.h"

static char root[] = "/tmp/usched-quota-XXXXXX";

/* Writes `text' to a file below root, whose directories are made. */
static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", root, name);
	for (char *slash = strchr(path + sizeof root, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		TEST_TRUE(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(path, "w");
	TEST_TRUE(file != NULL);
	TEST_TRUE(fputs(text, file) >= 0);
	TEST_EQUAL(fclose(file), 0);
}

static unsigned cpus(const char *groups)
{
	char path[256];

	put("groups", groups);
	snprintf(path, sizeof path, "%s/groups", root);
	return quota_cpus(path, root);
}

TEST(limits)
{
	put("two/cpu.max", "max 100000\n");
	put("two/a/cpu.max", "250000 100000\n");
	put("two/a/b/cpu.max", "800000 100000\n");
	put("two/c/cpu.max", "1000 100000\n");
	assert_int_equal(cpus("0::/two\n"), UINT_MAX);
	assert_int_equal(cpus("0::/two/a\n"), 3);
	assert_int_equal(cpus("0::/two/a/b\n"), 3);
	assert_int_equal(cpus("4:memory:/two/a\n0::/two/c\n"), 1);
	assert_int_equal(cpus("0::/\n"), UINT_MAX);
	assert_int_equal(cpus("0::/nowhere/at/all\n"), UINT_MAX);
	put("cpu.max", "400000 100000\n");
	assert_int_equal(cpus("0::/\n"), 4);
	assert_int_equal(cpus("0::/nowhere/at/all\n"), 4);
	put("cpu.max", "max 100000\n");
}

/* Controllers in groups of version 1, beside which there may be a group of version 2. */
TEST(version_1)
{
	put("cpu/one/cpu.cfs_quota_us", "250000\n");
	put("cpu/one/cpu.cfs_period_us", "100000\n");
	put("cpu/one/a/cpu.cfs_quota_us", "-1\n");
	put("cpu/one/a/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus("4:cpu,cpuacct:/one/a\n0::/\n"), 3);
	assert_int_equal(cpus("2:cpuacct:/one\n1:cpu:/\n"), UINT_MAX);
	put("cpu/cpu.cfs_quota_us", "50000\n");
	put("cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus("1:cpu:/\n"), 1);
	assert_int_equal(cpus("3:cpuset:/one\n"), UINT_MAX);
}

/* What cannot be read is no limit. */
TEST(nonsense)
{
	put("odd/cpu.max", "many\n");
	assert_int_equal(cpus("0::/odd\n"), UINT_MAX);
	put("odd/cpu.max", "0 100000\n");
	assert_int_equal(cpus("0::/odd\n"), UINT_MAX);
	put("odd/cpu.max", "100000 0\n");
	assert_int_equal(cpus("0::/odd\n"), UINT_MAX);
	put("odd/cpu.max", "9000000000000000000 1\n");
	assert_int_equal(cpus("0::/odd\n"), UINT_MAX);
	assert_int_equal(cpus("no colons\n0:\n\n"), UINT_MAX);
	assert_int_equal(quota_cpus("/nowhere", root), UINT_MAX);
}

int main(void)
{
	char command[64];
	int rc;

	if (!mkdtemp(root))
		return 1;
	rc = test_run_all();
	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command) ? 1 : rc;
}
