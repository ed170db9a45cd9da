/* SPDX-License-Identifier: MIT */
/*
 * unwind.c: for musl-gcc, the wrapper that makes the system's gcc build for musl. That
 * gcc's unwinder, in libgcc_eh.a, is built for glibc, and from gcc 12 on asks it for the
 * loaded object that contains an address. musl has no such call; a gcc that is built for
 * musl does not need it. This is one, by dl_iterate_phdr(). cross.sh compiles it.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* As glibc has it on x86-64 and AArch64. */
struct dl_find_object {
	unsigned long long flags;
	void              *start, *end;
	void              *map;
	void              *eh_frame;            /* its PT_GNU_EH_FRAME */
#ifndef __x86_64__
	void              *eh_dbase;
#endif
	unsigned long long reserved[7];
};

int _dl_find_object(void *address, struct dl_find_object *found);

struct wanted {
	uintptr_t              w_address;
	struct dl_find_object *w_found;
};

/* 1: it is this one, and has a table. */
static int look(struct dl_phdr_info *info, size_t size, void *wanted)
{
	const struct wanted *w = wanted;
	uintptr_t from, table = 0;
	int is_here = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		from = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_GNU_EH_FRAME)
			table = from;
		if (p->p_type != PT_LOAD || w->w_address - from >= p->p_memsz)
			continue;
		w->w_found->start = (void *)from;
		w->w_found->end = (void *)(from + p->p_memsz);
		is_here = 1;
	}
	w->w_found->eh_frame = (void *)table;
	return is_here && table;
}

int _dl_find_object(void *address, struct dl_find_object *found)
{
	struct wanted wanted = { (uintptr_t)address, found };

	*found = (struct dl_find_object){ 0 };
	return dl_iterate_phdr(look, &wanted) == 1 ? 0 : -1;
}
