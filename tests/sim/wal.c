/* SPDX-License-Identifier: MIT */
/*
 * A server that writes what it acknowledges to a log first, and reads the log when it
 * starts. Its host crashes at any step, and its writes and syncs fail at times.
 *
 *	wal             it syncs before it acknowledges: nothing that it said is lost
 *	wal lost        it does not
 *	wal lies        it does, and syncs may do nothing
 *	wal again       it syncs again when that has failed, and writes nothing again
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../sim/sim.h"

enum { RECORDS = 40, WRITERS = 2, DOWN = 1000000 };

struct record {
	uint32_t number;
	uint32_t check;
	char     text[200];
};

static int syncs, again;
static volatile uint32_t said;          /* the client's: the last that was acknowledged */
static pthread_mutex_t lock;
static pthread_cond_t changed;
static int log_fd, first = -1;             /* what it was at the first start */
static uint32_t last;
static unsigned starts;

static uint32_t check_of(uint32_t number)
{
	return number * 2654435761U ^ 0x12345678;
}

/* Reads all that is whole, and cuts off the rest. */
static void recover(void)
{
	struct record r;

	last = 0;
	while ((log_fd = open("/var/tmp/usched-sim.log", O_CREAT | O_RDWR, 0600)) < 0)
		;
	if (first < 0)
		first = log_fd;
	if (log_fd != first)
		sim_fail("what was open before the crash is not closed");
	while (read(log_fd, &r, sizeof r) == sizeof r && r.number == last + 1
	       && r.check == check_of(r.number) && r.text[sizeof r.text - 1] == '.')
		last = r.number;
	if (last < said)
		sim_fail("%u was acknowledged, and the log ends with %u", (unsigned)said,
			 (unsigned)last);
	if (ftruncate(log_fd, (off_t)(last * sizeof r)))
		sim_fail("the log cannot be cut");
	while (fsync(log_fd))
		;
}

/* 0, or -1: it may be in the log, or a part of it. */
static int put(const struct record *r)
{
	const char *at = (const char *)r, *end = at + sizeof *r;

	while (at < end) {
		ssize_t n = pwrite(log_fd, at, (size_t)(end - at),
				   (off_t)((r->number - 1) * sizeof *r
					   + (size_t)(at - (const char *)r)));

		if (n < 0)
			return -1;
		at += n;
	}
	while (again && fsync(log_fd))
		;
	return syncs && !again ? fsync(log_fd) : 0;
}

static void *write_records(void *unused)
{
	for (;;) {
		struct record r = { 0 };

		pthread_mutex_lock(&lock);
		r.number = last + 1;
		r.check = check_of(r.number);
		memset(r.text, '.', sizeof r.text);
		if (r.number <= RECORDS && put(&r) == 0) {
			last = r.number;
			said = last;
			pthread_cond_broadcast(&changed);
		}
		pthread_mutex_unlock(&lock);
		if (r.number > RECORDS)
			return unused;
	}
}

static void serve(void *unused)
{
	pthread_t t[WRITERS];

	(void)unused;
	starts++;
	pthread_mutex_init(&lock, NULL);
	recover();
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&t[i], NULL, write_records, NULL);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct sim_faults faults = {
		.f_crash = 80, .f_down_ns = DOWN, .f_short = 20, .f_full = 20,
		.f_sync_fails = 20, .f_sync_lies = strcmp(how, "lies") == 0 ? 5 : 0,
	};
	struct sim_host *server;

	syncs = strcmp(how, "lost") != 0;
	again = strcmp(how, "again") == 0;
	sim_host_start("server", "10.0.0.1", serve, NULL, &server);
	sim_faults(&faults);
	while (said < RECORDS && last < RECORDS)        /* the answer may be lost */
		usleep(1000);
	sim_faults(&(struct sim_faults){ 0 });
	sim_host_crash(server);
	sim_host_restart(server);
	usleep(1000000);
	printf("%u starts, the log ends with %u\n", starts, (unsigned)last);
	return 0;
}
