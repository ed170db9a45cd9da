/* SPDX-License-Identifier: MIT */
/*
 * A file of settings that is replaced: written under another name, and renamed.
 * After a crash it has old or new settings, all of one version, not older than what was
 * synced with its directory.
 *
 *	replace         the new file is synced before the rename, the directory after it
 *	replace file    the file is not
 *	replace dir     the directory is not
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../sim/sim.h"

#define NAME "/var/tmp/usched-sim.conf"
#define NEW  NAME ".new"

enum { VERSIONS = 10, LINES = 60 };

static int syncs_file = 1, syncs_dir = 1;
static int promised;
static int version;

/* 0: there is no file. */
static int load(void)
{
	FILE *f = fopen(NAME, "r");
	int first = 0, n = 0, one;

	if (!f)
		return 0;
	while (fscanf(f, "this is version %d\n", &one) == 1) {
		if (n++ == 0)
			first = one;
		if (one != first)
			sim_fail("versions %d and %d are in one file", first, one);
	}
	fclose(f);
	if (n != LINES)
		sim_fail("%d lines are left", n);
	return first;
}

static void save(int v)
{
	FILE *f = fopen(NEW, "w");
	int dir = open("/var/tmp", O_RDONLY | O_DIRECTORY);

	if (!f || dir < 0)
		sim_fail("the file cannot be written");
	for (int i = 0; i < LINES; i++)
		fprintf(f, "this is version %d\n", v);
	fflush(f);
	if (syncs_file)
		fsync(fileno(f));
	fclose(f);
	rename(NEW, NAME);
	if (syncs_dir)
		fsync(dir);
	close(dir);
}

static void serve(void *unused)
{
	(void)unused;
	version = load();
	if (version < promised)
		sim_fail("version %d is there, and %d was saved", version, promised);
	promised = version;
	while (version < VERSIONS) {
		save(version + 1);
		promised = ++version;
	}
}

int main(int argc, char **argv)
{
	struct sim_host *host;

	if (argc > 1 && strcmp(argv[1], "file") == 0)
		syncs_file = 0;
	if (argc > 1 && strcmp(argv[1], "dir") == 0)
		syncs_dir = 0;
	sim_host_start("host", NULL, serve, NULL, &host);
	sim_faults(&(struct sim_faults){ .f_crash = 300, .f_down_ns = 1000 });
	while (promised < VERSIONS)
		usleep(1000);
	sim_faults(&(struct sim_faults){ 0 });
	puts("done");
	return 0;
}
