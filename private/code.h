/* SPDX-License-Identifier: MIT */
/*
 * code.h: addresses of code, for reports: in memory, and then in the file, with the
 * symbol if the dynamic linker has one. Private to uproc.c, uinspect.c and
 * uoverflow.c, which define _GNU_SOURCE.
 */
#ifndef USCHED_CODE_H
#define USCHED_CODE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CODE = 192 };                    /* characters for an address */

/* Missing in some static programs. */
extern __typeof__(dladdr) dladdr __attribute__((weak));

/* Of a pointer to a function: on PA-RISC it may point to a descriptor, plus 2. */
static inline uintptr_t code_address(uintptr_t function)
{
#ifdef __hppa__
	if (function % 4 == 2)
		return *(const uintptr_t *)(function - 2);
#endif
	return function;
}

static inline char *code(char text[CODE], const void *address)
{
	int n = snprintf(text, CODE, "%p", address);
	const char *file;
	Dl_info info;

	if (!dladdr || !dladdr(address, &info) || !info.dli_fname)
		return text;
	file = strrchr(info.dli_fname, '/');
	snprintf(text + n, CODE - (size_t)n, " (%s+0x%tx%s%s)",
		 file ? file + 1 : info.dli_fname,
		 (const char *)address - (const char *)info.dli_fbase,
		 info.dli_sname ? " " : "", info.dli_sname ? info.dli_sname : "");
	return text;
}

#endif /* USCHED_CODE_H */
