/* SPDX-License-Identifier: MIT */
/*
 * quota.h: the CPU time that control groups of Linux allow (cgroups(7), version 2).
 * ROOT/GROUP/cpu.max has the time and a period, in microseconds: "50000 100000", or "max
 * 100000". The limit of a process is the least among those of its group and of all
 * groups above that. Private to uprocs.c.
 *
 * Inside a container the group may have the name that it has outside. Below ROOT there
 * is then only the end of that name, or nothing. A file that cannot be read sets no
 * limit.
 */
#ifndef USCHED_QUOTA_H
#define USCHED_QUOTA_H

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Returns how many CPUs `directory' allows, rounded up. UINT_MAX: no limit. */
static inline unsigned quota__of(const char *directory)
{
	long long quota = 0, period = 0;
	char path[PATH_MAX + 32];
	FILE *file;

	snprintf(path, sizeof path, "%s/cpu.max", directory);
	file = fopen(path, "re");
	if (!file)
		return UINT_MAX;
	if (fscanf(file, "%lld %lld", &quota, &period) < 2)
		quota = 0;
	fclose(file);
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return UINT_MAX;
	return (unsigned)((quota + period - 1) / period);
}

/* Returns the least limit in the directories from `top' down to `group', which begins
   with a slash. */
static inline unsigned quota__along(const char *top, const char *group)
{
	char directory[PATH_MAX];
	int size = snprintf(directory, sizeof directory, "%s%s", top, group);
	unsigned least = UINT_MAX;

	if (size < 0 || (size_t)size >= sizeof directory)
		return UINT_MAX;
	for (;;) {
		unsigned one = quota__of(directory);
		char *end;

		if (one < least)
			least = one;
		end = strrchr(directory, '/');
		if (!end || end < directory + strlen(top))
			return least;
		*end = '\0';
	}
}

/*
 * Returns how many CPUs the groups named in `file' allow; UINT_MAX: no limit. In a
 * process `file' is /proc/self/cgroup, and `root' is /sys/fs/cgroup.
 */
static inline unsigned quota_cpus(const char *file, const char *root)
{
	static const char head[] = "0::";       /* begins the line of version 2 */
	FILE *groups = fopen(file, "re");
	unsigned least = UINT_MAX;
	char line[PATH_MAX];

	while (groups && fgets(line, sizeof line, groups)) {
		char *group = line + sizeof head - 1;

		if (strncmp(line, head, sizeof head - 1) != 0)
			continue;
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(group, "/") == 0)
			*group = '\0';
		least = quota__along(root, group);
	}
	if (groups)
		fclose(groups);
	return least;
}

#endif /* USCHED_QUOTA_H */
