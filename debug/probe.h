/* SPDX-License-Identifier: MIT */
/*
 * probe.h: USDT probes: a nop, and a note of the ELF file that says where it is and where
 * its arguments are, for perf, bpftrace and SystemTap. Private to utrace.c.
 *
 * The note's description: addresses of the nop, of .stapsdt.base (by which a reader finds
 * how far a program was prelinked) and of the semaphore; then three strings: provider,
 * name and arguments, each "bytes@operand".
 */
#ifndef USCHED_PROBE_H
#define USCHED_PROBE_H

#include <stdint.h>

#define PROBE1(name, a)       PROBE(name, "8@%[pa]", a, 0, 0)
#define PROBE2(name, a, b)    PROBE(name, "8@%[pa] 8@%[pb]", a, b, 0)
#define PROBE3(name, a, b, c) PROBE(name, "8@%[pa] 8@%[pb] 8@%[pc]", a, b, c)

#if defined(__ELF__) && UINTPTR_MAX > 0xffffffff
#define PROBE(name, arguments, a, b, c) \
	__asm__ volatile ( \
		"990:	nop\n\t" \
		".pushsection .note.stapsdt, \"?\", \"note\"\n\t" \
		".balign 4\n\t" \
		".4byte 992f - 991f, 994f - 993f, 3\n" \
		"991:	.asciz \"stapsdt\"\n" \
		"992:	.balign 4\n" \
		"993:	.8byte 990b, _.stapsdt.base, utrace__control\n\t" \
		".asciz \"usched\"\n\t" \
		".asciz \"" name "\"\n\t" \
		".asciz \"" arguments "\"\n" \
		"994:	.balign 4\n\t" \
		".popsection\n\t" \
		".ifndef _.stapsdt.base\n\t" \
		".pushsection .stapsdt.base, \"aG\", \"progbits\", " \
		".stapsdt.base, comdat\n\t" \
		".weak _.stapsdt.base\n\t" \
		".hidden _.stapsdt.base\n" \
		"_.stapsdt.base: .space 1\n\t" \
		".size _.stapsdt.base, 1\n\t" \
		".popsection\n\t" \
		".endif" \
		: : [pa] "r"((uint64_t)(a)), [pb] "r"((uint64_t)(b)), \
		    [pc] "r"((uint64_t)(c)))
#else
#define PROBE(name, arguments, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif /* USCHED_PROBE_H */
