/* SPDX-License-Identifier: MIT */
/*
 * one.h: minicoro, for one native thread and without checks for debuggers. A number is
 * given through the user's pointer: minicoro's own storage for values, which is copied to
 * and fro, takes longer.
 */
#ifndef ONE_H
#define ONE_H

#define _DEFAULT_SOURCE
#define MCO_NO_DEBUG
#define MCO_NO_MULTITHREAD
#define MINICORO_IMPL
#include <minicoro.h>

#include "../c/peer.h"

static inline void check(mco_result result)
{
	if (result == MCO_OUT_OF_MEMORY)
		fail("not enough memory");
	if (result != MCO_SUCCESS)
		fail(mco_result_description(result));
}

#endif
