/* SPDX-License-Identifier: MIT */
/*
 * uproc_local.c: whether a thread may leave its native thread. Compilers keep addresses
 * of errno and of other thread-local variables in frames, across calls that switch,
 * since a function of C has one native thread. So before a thread that has run moves, its
 * live frames, which have the registers as well, are searched for addresses within TLS
 * and the control block. A word that only looks like such an address keeps the thread
 * until the next attempt. doc/moving.md says more, and what is not found.
 *
 * In the child of a fork, libc's lock of the list of libraries may be locked for ever. If
 * there were schedulers before the fork, threads that have run stay where they are.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* for dl_iterate_phdr() */
#endif
#include <link.h>

#include "../watch/watch.h"
#include "proc.h"

enum {
	DEPTH   = 16 << 10,     /* the most bytes of frames that are searched */
	CONTROL = 4096,         /* bytes before and behind the thread pointer */
	NEAR    = 1 << 20,      /* bytes from static TLS to the thread pointer, at most */
};

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

/* For a function that reads frames of other functions: sanitizers do not check it. */
#if defined __clang__
#define UNCHECKED __attribute__((no_sanitize("address", "memory", "thread")))
#else
#define UNCHECKED __attribute__((no_sanitize_address, no_sanitize_thread))
#endif

/* Returns the thread pointer of the ABI, or else the address that libc uses. gcc 10
   claims to have this builtin on all machines. */
static uintptr_t thread_pointer(void)
{
#if __has_builtin(__builtin_thread_pointer) && __GNUC__ != 10
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)pthread_self();
#endif
}

static void widen(struct uproc_local *r, uintptr_t begin, uintptr_t end)
{
	r->lo_begin = begin < r->lo_begin ? begin : r->lo_begin;
	r->lo_end = end > r->lo_end ? end : r->lo_end;
}

/* dl_iterate_phdr() calls this for each library. Notes the TLS of the library: adds a
   range for dynamic TLS, or widens the first range for static TLS. If no range is left,
   returns 1, which ends the calls. */
static int note_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct uproc_locals *l = (struct uproc_locals *)arg;
	uintptr_t begin = (uintptr_t)info->dlpi_tls_data, end = begin;

	(void)size;
	for (int i = 0; begin && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			end = begin + info->dlpi_phdr[i].p_memsz;
	if (begin == end)
		return 0;
	if (end - l->ls_range[0].lo_begin + NEAR < 2 * NEAR)
		widen(&l->ls_range[0], begin, end);
	else if (l->ls_count < UPROC_LOCALS)
		l->ls_range[l->ls_count++] = (struct uproc_local){ begin, end };
	else
		l->ls_full = true;
	return l->ls_full;
}

bool uproc__local_lost;

void uproc__note_locals(struct uproc_locals *l)
{
	uintptr_t self = (uintptr_t)pthread_self(), pointer = thread_pointer();

	*l = (struct uproc_locals){ .ls_count = 2 };
	l->ls_range[0] = (struct uproc_local){ self - CONTROL, self + CONTROL };
	l->ls_range[1] = (struct uproc_local){ pointer - CONTROL, pointer + CONTROL };
	if (uproc__local_lost)
		l->ls_full = true;
	else
		dl_iterate_phdr(note_tls, l);
}

static bool is_local(const struct uproc_locals *l, uintptr_t word)
{
	for (unsigned i = 0; i < l->ls_count; i++)
		if (word - l->ls_range[i].lo_begin
		    < l->ls_range[i].lo_end - l->ls_range[i].lo_begin)
			return true;
	return false;
}

/* The stack of `u' is unshared, and grows down. u_fp and u_bp hold two registers that the
   switch does not save in the frames. */
UNCHECKED bool uproc__keeps_local(const struct uproc_locals *l, const struct ustack *u)
{
	const uintptr_t *word = (const uintptr_t *)(const void *)usched__top(u);
	const uintptr_t *bottom = (const uintptr_t *)(const void *)u->u_stack->k_bottom;

	if (l->ls_full || (uintptr_t)bottom - (uintptr_t)word > DEPTH
	    || is_local(l, (uintptr_t)u->u_fp) || is_local(l, (uintptr_t)u->u_bp))
		return true;
	for (; word < bottom; word++) {
		uintptr_t copy = *word;

		watch_copied(u->u_stack, &copy);
		if (is_local(l, copy))
			return true;
	}
	return false;
}
