/* SPDX-License-Identifier: MIT */
/*
 * code.h: addresses of code, for reports: in memory, and then in the file, with the
 * symbol if the dynamic linker has one. Private to uproc.c and uinspect.c, which define
 * _GNU_SOURCE.
 */
#ifndef USCHED_CODE_H
#define USCHED_CODE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { CODE = 192 };                    /* characters for an address */

/* Missing in some static programs. */
extern __typeof__(dladdr) dladdr __attribute__((weak));

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
