/* SPDX-License-Identifier: MIT */
/* test_uco_inline.c: test_uco.c with statements in place of functions. */
#define USCHED_INLINE_SWITCH
#include "test_uco.c"
