/* SPDX-License-Identifier: MIT */
/*
 * corpus.h: functions that hand over to another thread, to see what compilers make of
 * the statement that is inlined there.
 *
 * Each caller computes a number from a seed, with a hand-over in the middle of its work.
 * Meanwhile the other thread fills all registers with rubbish. Each file is compiled
 * twice: as it is, with the options to be tested, and with CORPUS_PLAIN, where SWITCH()
 * only counts. drive.c calls both forms of each caller and compares.
 *
 * Callers call as little as possible besides, since functions without calls may keep
 * locals below SP. Floating point values are small integers, so contraction and the
 * order of sums do not matter.
 */
#ifndef USCHED_CORPUS_H
#define USCHED_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "../../ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller needs of the machine. */
enum { CORPUS_ANY, CORPUS_AVX2, CORPUS_AVX512, CORPUS_SVE };

struct corpus_case {
	const char *c_name;
	uint64_t  (*c_func)(uint64_t seed);
	int         c_needs;
};

/* The thread that hands back at once. */
extern struct ustack *corpus_other;

/* Of the other thread; in plain forms, of hand-overs. */
extern uint64_t corpus_turns;

/* Called with values of any kind; both forms of a caller do it in the same order. */
void corpus_note(uint64_t value);
void corpus_note_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Functions of other files that the compiler cannot see into. */
uint64_t corpus_mix(uint64_t a, uint64_t b);
uint64_t corpus_ten(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		    uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j);
double corpus_mix_double(double a, double b);
void corpus_fill(void *to, size_t size, uint64_t seed);

#ifdef CORPUS_PLAIN
#define CORPUS(name) name##_plain
#define SWITCH() ((void)corpus_turns++, 0)
#define WAIT() SWITCH()
#else
#define CORPUS(name) name##_inline
#define SWITCH() ustack_switch(corpus_other)
#define WAIT() ustack_wait()
#endif

/* Ends each table. */
extern const struct corpus_case corpus_ints_plain[], corpus_ints_inline[];
extern const struct corpus_case corpus_frames_plain[], corpus_frames_inline[];
extern const struct corpus_case corpus_floats_plain[], corpus_floats_inline[];
extern const struct corpus_case corpus_cpp_plain[], corpus_cpp_inline[];

/* A value that the compiler knows nothing of, at no cost in calls. */
static inline uint64_t hide(uint64_t value)
{
	__asm__("" : "+r"(value));
	return value;
}

/* A function of its own, with all that may be inlined in it. */
#define OUTSIDE __attribute__((noinline, flatten))

#ifdef __cplusplus
}
#endif

#endif /* USCHED_CORPUS_H */
