/* SPDX-License-Identifier: MIT */
/*
 * A file of settings that is replaced: written under another name, and renamed.
 * After a crash it has old or new settings, all of one version, not older than what was
 * synced with its directory. Another directory moves to and fro, with a file; that is
 * always at one place.
 *
 *	replace         the new file is synced before the rename, the directory after it
 *	replace file    the file is not
 *	replace dir     the directory is not
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../sim/sim.h"

#define NAME "/var/tmp/usched-sim.conf"
#define NEW  NAME ".new"
#define HERE "/var/tmp/usched-sim"
#define THERE "/tmp/usched-sim"

enum { VERSIONS = 10, LINES = 60 };

static int syncs_file = 1, syncs_dir = 1;
static int promised, moves;
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

/* Makes the directory, with a file in it. */
static void make(int dir)
{
	int fd;

	mkdir(HERE, 0700);
	fd = open(HERE "/file", O_CREAT | O_WRONLY, 0600);
	fsync(fd);
	close(fd);
	fsync(dir);
	moves = 1;
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
	if (!moves)
		make(dir);
	else if (rename(HERE, THERE) != 0)
		rename(THERE, HERE);
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
	if (moves && !access(HERE "/file", F_OK) == !access(THERE "/file", F_OK))
		sim_fail("the directory is at both places, or at none");
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
