/* SPDX-License-Identifier: MIT */
/*
 * quota.h: the CPU time that control groups allow, of Linux (cgroups(7)). A group and
 * each one above it may have a limit, and the least counts. Private to uprocs.c.
 *
 *	version 2   ROOT/GROUP/cpu.max             "max 100000", or "50000 100000"
 *	version 1   ROOT/cpu/GROUP/cpu.cfs_quota_us, cpu.cfs_period_us     -1: none
 *
 * Inside a container the name of the group may be the host's, of which only the end, or
 * nothing, is below ROOT. What is not there has no limit.
 */
#ifndef USCHED_QUOTA_H
#define USCHED_QUOTA_H

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The numbers in a file: how many of the two could be read. */
static inline int quota__read(const char *path, long long *a, long long *b)
{
	FILE *file = fopen(path, "re");
	int n = 0;

	if (file) {
		n = fscanf(file, "%lld %lld", a, b);
		fclose(file);
	}
	return n > 0 ? n : 0;
}

/* CPUs, rounded up, that the one group in `directory' allows; UINT_MAX: no limit. */
static inline unsigned quota__of(const char *directory)
{
	long long quota = -1, period = 0, unused;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof path, "%s/cpu.max", directory);
	if (quota__read(path, &quota, &period) < 2) {
		snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
		if (quota__read(path, &quota, &unused) < 1)
			return UINT_MAX;
		snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
		if (quota__read(path, &period, &unused) < 1)
			return UINT_MAX;
	}
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return UINT_MAX;
	return (unsigned)((quota + period - 1) / period);
}

/* The least of the groups from `top' down to `group', which begins with a slash. */
static inline unsigned quota__along(const char *top, const char *group)
{
	char directory[PATH_MAX];
	int size = snprintf(directory, sizeof directory, "%s%s", top, group);
	unsigned least = UINT_MAX, one;

	if (size < 0 || (size_t)size >= sizeof directory)
		return UINT_MAX;
	for (;;) {
		char *end;

		one = quota__of(directory);
		if (one < least)
			least = one;
		end = strrchr(directory, '/');
		if (!end || end < directory + strlen(top))
			return least;
		*end = '\0';
	}
}

/* Whether `name' is in a list with commas. */
static inline int quota__lists(const char *list, const char *name)
{
	size_t size = strlen(name);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (strncmp(list, name, size) == 0
		    && (list[size] == ',' || list[size] == '\0'))
			return 1;
	}
	return 0;
}

/*
 * CPUs that the groups in `file', as /proc/self/cgroup, allow below `root', as
 * /sys/fs/cgroup; UINT_MAX: no limit.
 */
static inline unsigned quota_cpus(const char *file, const char *root)
{
	FILE *groups = fopen(file, "re");
	char line[PATH_MAX], top[PATH_MAX];
	unsigned least = UINT_MAX;

	while (groups && fgets(line, sizeof line, groups)) {
		char *controllers = strchr(line, ':'), *group;
		unsigned one = UINT_MAX;

		group = controllers ? strchr(++controllers, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(group, "/") == 0)
			*group = '\0';
		if (*controllers == '\0') {
			one = quota__along(root, group);
		} else if (quota__lists(controllers, "cpu")
			   && snprintf(top, sizeof top, "%s/cpu", root) > 0) {
			one = quota__along(top, group);
		}
		if (one < least)
			least = one;
	}
	if (groups)
		fclose(groups);
	return least;
}

#endif /* USCHED_QUOTA_H */
