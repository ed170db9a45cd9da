/* SPDX-License-Identifier: MIT */
/* test_direction_down.c: test_direction.c, over a stack that grows down. */
#define USCHED_GROWS_UP 0
#include "test_direction.c"
