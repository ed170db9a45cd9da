/* SPDX-License-Identifier: MIT */
/* order.h: all orders of a small program, one after the other. Private. */
#ifndef USCHED_SIM_ORDER_H
#define USCHED_SIM_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../private/sim.h"

/* The path of the last run, in memory that all runs share, of this size: zeros. */
struct sim_order;
SIM_PRIVATE size_t sim__order_size(void);
SIM_PRIVATE void   sim__use_order(struct sim_order *shared);

/* Returns a number below n, for sim__choose(): each in turn. */
SIM_PRIVATE uint64_t sim__ordered(uint64_t n);

/* After a run: prepares the next one. False: there is none. */
SIM_PRIVATE bool sim__next_order(void);

#endif /* USCHED_SIM_ORDER_H */
