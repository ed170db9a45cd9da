/* SPDX-License-Identifier: MIT */
/*
 * serve.h: runs of a whole program, as usched-run --sim asks for in the environment.
 * Private.
 */
#ifndef USCHED_SIM_SERVE_H
#define USCHED_SIM_SERVE_H

#include <stdbool.h>

#include "../private/sim.h"

#define EXPORTED __attribute__((visibility("default")))

/* Returns whether the environment asks for runs. */
SIM_PRIVATE bool sim__is_wanted(void);

/*
 * Begins a process for each run, and returns in each. The process that has called it
 * tells what came of them, and ends.
 */
SIM_PRIVATE void sim__serve(char **argv);

#endif /* USCHED_SIM_SERVE_H */
