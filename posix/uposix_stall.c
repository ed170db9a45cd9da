/* SPDX-License-Identifier: MIT */
/*
 * uposix_stall.c: tells of system calls that keep a processor. With slices the monitor of
 * src/proc/upreempt.c looks at each processor. If a thread has kept its processor for
 * UPOSIX_STALL and has not computed meanwhile, the kernel says in which system call the
 * thread is. The place of each call is told of once.
 *
 * A file is opened only then, so that programs that close all descriptors, or expect the
 * lowest free number, are disturbed as seldom as possible.
 *
 * The search for names takes the dynamic linker's lock. If the thread has that lock, the
 * monitor waits until the call is over.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "uposix_set.h"

#include "../src/base/code.h"
#include "../src/base/when.h"
#include "../src/proc/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

enum {
	MS     = 1000000,               /* ns of a millisecond */
	PLACES = 64,                    /* the most places that are told of */
	WORDS  = 64,                    /* words of the stack in which the caller is */
	FILE_TEXT = 256,                /* bytes of the kernel's file */
};

/* What the monitor has seen of each processor. */
struct ustall {
	const struct upreempt_all *us_all;
	struct kept {
		uint64_t k_progress;
		int64_t  k_since, k_cpu; /* ns: the time and the CPU time when k_progress
					    was first seen */
	} us_kept[];
};

static int make(struct ustall **w, const struct upreempt_all *all)
{
	*w = calloc(1, sizeof **w + all->ua_count * sizeof (*w)->us_kept[0]);
	if (*w)
		(*w)->us_all = all;
	return *w ? 0 : -ENOMEM;
}

static void stop(struct ustall *w)
{
	(void)w;
}

static void free_all(struct ustall *w)
{
	free(w);
}

/* Asks the kernel for the number of the call of a native thread. Returns false if the
   native thread is in no call, or if the kernel does not tell. */
static bool find_call(pid_t native, long *call, uintptr_t *sp, uintptr_t *pc)
{
	char text[FILE_TEXT];
	ssize_t n = -1;
	int fd;

	snprintf(text, sizeof text, "/proc/self/task/%d/syscall", (int)native);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%ld %*s %*s %*s %*s %*s %*s %lx %lx", call, sp, pc) == 3;
}

/* The function of dl_iterate_phdr(): returns 1 if *address is in code. */
static int is_code(struct dl_phdr_info *info, size_t size, void *address)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_flags & PF_X
		    && *(uintptr_t *)address - info->dlpi_addr
		       - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			return 1;
	return 0;
}

/* Returns the address to which libc will return from the call, or `pc' if the program has
   made the call itself. */
static uintptr_t find_caller(uintptr_t sp, uintptr_t pc)
{
	uintptr_t words[WORDS] = { 0 };
	struct iovec to = { words, sizeof words };
	struct iovec from = { (void *)sp, sizeof words };

	if (uposix__may_stop_at(pc)
	    || process_vm_readv(getpid(), &to, 1, &from, 1, 0) <= 0)
		return pc;
	for (size_t i = 0; i < WORDS; i++)
		if (uposix__may_stop_at(words[i]) && dl_iterate_phdr(is_code, &words[i]))
			return words[i] - 1;
	return pc;
}

/* Tells of the call that keeps processor i, if there is such a call. */
static void tell(size_t i, pid_t native)
{
	static uintptr_t places[PLACES];
	char at[CODE + 1] = "", by[CODE + 1] = "";
	struct text text_at = { .t_bytes = at, .t_room = CODE, .t_fd = -1 };
	struct text text_by = { .t_bytes = by, .t_room = CODE, .t_fd = -1 };
	uintptr_t sp, pc, caller;
	size_t n = 0;
	long call;

	if (!find_call(native, &call, &sp, &pc))
		return;
	caller = find_caller(sp, pc);
	while (n < PLACES && places[n] && places[n] != caller)
		n++;
	if (n == PLACES || places[n])
		return;
	places[n] = caller;
	code_add(&text_at, pc);
	code_add(&text_by, caller);
	uposix__tell("processor %zu has been in system call %ld for %d ms, at %s,"
		     " called at %s: its other threads wait",
		     i, call, UPOSIX_STALL / MS, at, by);
}

static void look(struct ustall *w, size_t i)
{
	struct usched *s = upreempt__at(w->us_all, i);
	pid_t native = __atomic_load_n(&slice_of(s)->sl_tid, __ATOMIC_ACQUIRE);
	struct kept *k = &w->us_kept[i];
	uint64_t progress;
	int64_t now = when_now(), cpu;

	if (native == 0)
		return;
	cpu = when_by(slice_of(s)->sl_clock);
	if (w->us_all->ua_state(s, &progress) != UPREEMPT_RUNS || cpu - k->k_cpu > MS
	    || progress != k->k_progress) {
		*k = (struct kept){ progress, now, cpu };
	} else if (now - k->k_since >= UPOSIX_STALL) {
		tell(i, native);
		k->k_since = now;       /* the next call may be at another place */
	}
}

static void looked(struct ustall *w)
{
	(void)w;
}

static void answer(struct ustall *w, const struct usched *s, const void *context)
{
	(void)w, (void)s, (void)context;
}

void uposix__watch_calls(void)
{
	static const struct upreempt_stalls table = {
		make, stop, free_all, look, looked, answer,
	};

	upreempt__report(&table);
}
