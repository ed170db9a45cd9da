/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h: what the fuzz targets share. A run depends on its input alone, so that a crash
 * comes again: there is one native thread, and time is a number, see fuzz.c.
 */
#ifndef USCHED_FUZZ_H
#define USCHED_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program and has the fuzzer keep the input, if `condition' does not hold. */
#define CHECK(condition) \
	((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

_Noreturn void fuzz_fail(const char *what, const char *file, int line);

/* What is left of the input; fuzz_take() takes a byte of it modulo n, or 0. */
extern const uint8_t *fuzz_input;
extern size_t         fuzz_left;

unsigned fuzz_take(unsigned n);

/* The time, in ns. Each look at the clock, and each sleep, moves it on. */
extern int64_t fuzz_now;

/* Called where a sleep would have no end; true: sleep again. NULL: it is a mistake. */
extern bool (*fuzz_endless)(void);

/* Of the targets of servers: counts work of the running thread, see work.c. */
void fuzz_charge(size_t blocks);

/* As much is allowed of it. */
extern size_t fuzz_work;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* USCHED_FUZZ_H */
