/* SPDX-License-Identifier: MIT */
/*
 * tell.c: the report of a run that fails, with the threads and the last steps; and the
 * trace. A report allocates no memory and takes no lock, since a signal may have ended
 * the run anywhere. Places in the code are offsets in files, so that each run of a seed
 * reports the same.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "../src/base/code.h"
#include "host.h"

enum {
	THREADS = 32,                   /* threads shown */
	LAST    = 64,                   /* events shown */
};

static struct sim_event events[LAST];   /* event number n is events[n % LAST] */

/*
 * Finds the function and file of a place in the code. sim__enters is 0 meanwhile, so that
 * code_find() opens the real file, without a step.
 */
static void find_code(struct code *c, uintptr_t place)
{
	const unsigned char before = sim__enters;

	sim__enters = 0;
	code_find(c, place - 1);
	sim__enters = before;
}

static void put_place(struct text *t, uintptr_t place)
{
	struct code c;

	if (!place)
		return;
	find_code(&c, place);
	text_put(t, " in ");
	text_put(t, c.cd_name[0] ? c.cd_name : "a function");
	text_put(t, " (");
	text_put(t, c.cd_file[0] ? c.cd_file : "a file");
	text_put(t, "+");
	text_hex(t, c.cd_offset);
	text_put(t, ")");
}

static void put_op(struct text *t, const struct sim_event *e)
{
	text_put(t, "thread ");
	text_number(t, e->e_number);
	if (e->e_host) {
		text_put(t, " of ");
		text_put(t, e->e_host->h_name);
	}
	text_put(t, ": ");
	text_put(t, e->e_op.o_name ? e->e_op.o_name : "begins");
	put_place(t, e->e_op.o_place);
	text_put(t, e->e_chosen ? ", by choice\n" : "\n");
}

static void put_threads(struct text *t)
{
	uint32_t left = THREADS;

	text_put(t, "usched: threads, and what each does next, or waits in:\n");
	for (const struct sim_thread *o = sim__run.r_threads; o; o = o->t_next) {
		if (left-- == 0) {
			text_put(t, "usched:   and more\n");
			return;
		}
		text_put(t, "usched:   ");
		put_op(t, &(struct sim_event){ .e_op = o->t_op, .e_host = o->t_host,
					       .e_number = o->t_number });
	}
}

static void put_event(struct text *t, const struct sim_event *e)
{
	text_put(t, "usched:   ");
	text_number(t, e->e_step);
	text_put(t, "  ");
	if (e->e_number != SIM_NAMED) {
		put_op(t, e);
		return;
	}
	text_put(t, "fault: ");
	text_put(t, e->e_op.o_name);
	if (e->e_host) {
		text_put(t, " of ");
		text_put(t, e->e_host->h_name);
	}
	text_put(t, "\n");
}

void sim__tell(const char *why)
{
	const struct sim_run *r = &sim__run;
	uint64_t n = r->r_events < LAST ? r->r_events : LAST;
	char line[512];
	struct text t = TEXT(line, STDERR_FILENO);

	text_put(&t, "usched: ");
	text_put(&t, why);
	text_put(&t, ", in step ");
	text_number(&t, r->r_steps);
	text_put(&t, ", after ");
	text_seconds(&t, (uint64_t)(r->r_now - r->r_began), 6);
	text_put(&t, " s\n");
	put_threads(&t);
	text_put(&t, "usched: the last steps:\n");
	for (uint64_t i = r->r_events - n; i < r->r_events; i++)
		put_event(&t, &events[i % LAST]);
	text_flush(&t);
}

/* ---- The trace: --trace ---- */

/* Writes the name and the address of a host, which may be NULL. */
static void name(char *to, size_t size, const struct sim_host *h)
{
	snprintf(to, size, "%s %s", h ? h->h_name : "",
		 h && h->h_address ? h->h_address : "");
}

void sim__trace(const char *event, const struct sim_event *e,
		uint64_t message, const struct sim_host *to, int64_t when)
{
	const struct sim_run *r = &sim__run;
	const int before = errno;
	char host[64], other[64], place[CODE] = "", line[512];
	struct code c;

	if (e->e_op.o_place) {
		find_code(&c, e->e_op.o_place);
		snprintf(place, sizeof place, "%s %s+%#" PRIxPTR, c.cd_name, c.cd_file,
			 c.cd_offset);
	}
	name(host, sizeof host, e->e_host);
	name(other, sizeof other, to);
	snprintf(line, sizeof line, "%" PRIu64 ",%" PRId64 ",\"%s\",%" PRIu32
		 ",%s,\"%s\",%s,%d,%" PRIu64 ",\"%s\",%" PRId64 "\n",
		 r->r_steps, r->r_now - r->r_began, host,
		 e->e_number == SIM_NAMED ? r->r_by : e->e_number, event,
		 e->e_op.o_name ? e->e_op.o_name : "begins", place, e->e_chosen, message,
		 other, when - r->r_began);
	text_put(r->r_trace, line);
	errno = before;
}

void sim__event(const struct sim_event *e)
{
	struct sim_run *r = &sim__run;

	events[r->r_events++ % LAST] = *e;
	if (r->r_trace)
		sim__trace(e->e_number == SIM_NAMED ? "fault" : "step", e, 0, NULL,
			   r->r_now);
}

void sim__note_fault(const char *what, const struct sim_host *host)
{
	sim__event(&(struct sim_event){ .e_op.o_name = what, .e_step = sim__run.r_steps,
					.e_host = host, .e_number = SIM_NAMED });
}

/* ---- Signals that end a process ---- */

static void tell_signal(int signal)
{
	const char *name = strsignal(signal);

	if (sim__run.r_outcome) {
		sim__run.r_outcome->u_steps = sim__run.r_steps;
		sim__tell(name ? name : "a signal");
	}
	raise(signal);                          /* ends the process: SA_RESETHAND */
}

void sim__tell_signals(void)
{
	static const int ends[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct sigaction act = { .sa_handler = tell_signal };

	act.sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		sigaction(ends[i], &act, NULL);
}
