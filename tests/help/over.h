/* SPDX-License-Identifier: MIT */
/*
 * over.h: schedulers behind one table, for tests that run over each of them: rr, ll, and
 * foreign.h, the scheduler of a user. A program's main() calls over_all(); each of its
 * tests then runs once for each scheduler, which `over' is meanwhile, as "test rr",
 * "test ll", "test foreign".
 */
#ifndef USCHED_TEST_OVER_H
#define USCHED_TEST_OVER_H

#include <stdbool.h>

#include "../../uprocs.h"
#include "../../ustack.h"
#include "test.h"

/* What schedulers have each by themselves; ustack.h has the rest. */
struct over {
	const char *o_name;
	int  (*o_create)(const struct uprocs_conf *conf, void **s);
	int  (*o_destroy)(void *s);
	int  (*o_start)(void *s, void (*func)(void *), void *arg, struct ustack **thread);
	int  (*o_start_with)(void *s, const struct ustack_how *how, void (*func)(void *),
			     void *arg, struct ustack **thread);
	void (*o_hold)(void *s);
	void (*o_release)(void *s);
	int  (*o_run)(void *s);         /* with c_embed; NULL: it cannot be embedded */
	void (*o_stats)(void *s, struct usched_stats *out);
	bool  o_procs;                  /* over uproc.h: several processors, reports */
};

#ifdef USCHED_SIM       /* there is over_sim alone, and each of these is that */
enum { OVER_RR = 1, OVER_LL = 1, OVER_FOREIGN = 1, OVER_PROCS = 1, OVER_ALL = 1 };
#else
enum { OVER_RR = 1, OVER_LL = 2, OVER_FOREIGN = 4, OVER_PROCS = 3, OVER_ALL = 7 };
#endif

extern const struct over over_rr, over_ll, over_foreign, over_sim;

/* That of the running test; over_rr before the first. */
extern const struct over *over;

/*
 * 1: check builds report stalls. Else they do so only where c_stall is set: machines
 * are slow, and to look at a native thread takes a descriptor, whose number a test may
 * have just closed.
 */
extern bool over_stalls;

/* Runs the program's tests; `which' are bits of OVER_ALL. Returns what main() returns. */
int over_all(unsigned which);

#endif /* USCHED_TEST_OVER_H */
