/* SPDX-License-Identifier: MIT */
/*
 * code.h: writes addresses of code for reports: the address in memory, then the file, the
 * address in the file, and the function. Private to files that define _GNU_SOURCE.
 *
 * Functions are looked up in the symbol table of the file, and by the dynamic linker. The
 * table has static functions, too. The linker knows functions of libraries without a
 * table. Nothing is kept from one address to the next.
 * Unless the program is stripped, a signal handler may call code_find() for the program's
 * own code, since no lock is taken then and nothing is allocated. For other code dladdr()
 * is called, which takes a lock.
 */
#ifndef USCHED_CODE_H
#define USCHED_CODE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "text.h"

enum {
	CODE         = 192,             /* characters of the whole text for an address */
	CODE_FILE    = 64,              /* characters of the name of a file */
	CODE_NAME    = 80,              /* characters of the name of a function */
	CODE_PATH    = 1024,            /* bytes of a path; longer paths are not shown */
	CODE_SYMBOLS = 64,              /* symbols that are read at a time */
};

/* The file and the function of an address. */
struct code {
	char      cd_file[CODE_FILE];   /* name without directories; empty: not known */
	char      cd_name[CODE_NAME];   /* name of the function; empty: not known */
	uintptr_t cd_offset;            /* from the start of the file in memory */
};

/* dladdr(3) is missing in some static programs. */
extern __typeof__(dladdr) dladdr __attribute__((weak));

/* Returns the address of a function's code. On PA-RISC a pointer to a function may be
   the address of a descriptor, plus 2. */
static inline uintptr_t code_address(uintptr_t function)
{
#ifdef __hppa__
	if (function % 4 == 2)
		return *(const uintptr_t *)(function - 2);
#endif
	return function;
}

static inline bool code__read(int fd, void *to, size_t size, size_t at)
{
	return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

static inline void code__set_file(struct code *c, const char *path)
{
	const char *last = strrchr(path, '/');

	text_copy(c->cd_file, sizeof c->cd_file, last ? last + 1 : path);
}

/* Looks in one symbol table for the function or variable at `place', an address of that
   table. */
static inline bool code__search(struct code *c, int fd, const ElfW(Shdr) *table,
				size_t strings, uintptr_t place)
{
	ElfW(Sym) some[CODE_SYMBOLS];
	size_t n = table->sh_size / sizeof *some;

	for (size_t i = 0, got; i < n; i += got) {
		got = n - i < CODE_SYMBOLS ? n - i : CODE_SYMBOLS;
		if (!code__read(fd, some, got * sizeof *some,
				table->sh_offset + i * sizeof *some))
			return false;
		for (size_t j = 0; j < got; j++) {
			if (((some[j].st_info & 0xf) != STT_FUNC
			     && (some[j].st_info & 0xf) != STT_OBJECT)
			    || place - some[j].st_value >= some[j].st_size)
				continue;
			if (pread(fd, c->cd_name, sizeof c->cd_name - 1,
				  (off_t)(strings + some[j].st_name)) <= 0)
				return false;
			text_copy(c->cd_name, sizeof c->cd_name, c->cd_name);
			return true;
		}
	}
	return false;
}

/* Looks for the function in the file that is mapped at `base'. Finds nothing if the file
   has changed since it was mapped. */
static inline bool code__look(struct code *c, const char *path, uintptr_t base,
			      uintptr_t place)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ElfW(Shdr) table, strings;
	bool found = false;
	ElfW(Ehdr) head;

	if (fd < 0)
		return false;
	if (!code__read(fd, &head, sizeof head, 0)
	    || memcmp(&head, (const void *)base, sizeof head) != 0)
		head.e_shnum = 0;
	for (size_t i = 0; i < head.e_shnum && !found; i++)
		found = code__read(fd, &table, sizeof table,
				   head.e_shoff + i * sizeof table)
			&& table.sh_type == SHT_SYMTAB
			&& code__read(fd, &strings, sizeof strings,
				      head.e_shoff + table.sh_link * sizeof strings)
			&& code__search(c, fd, &table, strings.sh_offset, place);
	close(fd);
	return found;
}

/*
 * If `address' is in the program, returns where the program begins in memory, and sets
 * *place to the address as the symbol table counts it; else returns 0. An address in
 * writable memory is that of a function's descriptor.
 */
static inline uintptr_t code__program(uintptr_t address, uintptr_t *place)
{
	const ElfW(Phdr) *part = (const ElfW(Phdr) *)(uintptr_t)getauxval(AT_PHDR);
	size_t n = (size_t)getauxval(AT_PHNUM);
	uintptr_t base = (uintptr_t)part - sizeof(ElfW(Ehdr)), bias = 0;

	if (!part || memcmp((const void *)base, ELFMAG, SELFMAG) != 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (part[i].p_type == PT_LOAD && part[i].p_offset == 0)
			bias = base - part[i].p_vaddr;
	for (size_t i = 0; i < n; i++)
		if (part[i].p_type == PT_LOAD
		    && address - bias - part[i].p_vaddr < part[i].p_memsz) {
			*place = part[i].p_flags & PF_W ? code_address(address) : address;
			*place -= bias;
			return base;
		}
	return 0;
}

static inline void code_find(struct code *c, uintptr_t address)
{
	uintptr_t place = 0, base = code__program(address, &place);
	char path[CODE_PATH];
	Dl_info info;
	ssize_t n;

	*c = (struct code){ .cd_offset = address - base };
	if (base) {
		n = readlink("/proc/self/exe", path, sizeof path);
		path[n > 0 && n < CODE_PATH ? n : 0] = '\0';
		code__set_file(c, path);
		if (code__look(c, "/proc/self/exe", base, place))
			return;
	}
	if (!dladdr || !dladdr((const void *)address, &info) || !info.dli_fname)
		return;
	if (!c->cd_file[0])
		code__set_file(c, info.dli_fname);
	base = (uintptr_t)info.dli_fbase;
	c->cd_offset = address - base;
	if (info.dli_sname)
		text_copy(c->cd_name, sizeof c->cd_name, info.dli_sname);
	else if (base)
		code__look(c, info.dli_fname, base, address - base);
}

/* Adds an address as a number, and then the file and the function, if known. */
static inline void code_add(struct text *t, uintptr_t address)
{
	struct code c;

	text_hex(t, address);
	code_find(&c, address);
	if (c.cd_file[0])
		text_add(t, " (%s+%p%s%s)", c.cd_file, (const void *)c.cd_offset,
			 c.cd_name[0] ? " " : "", c.cd_name);
}

/* Adds a line of a report, about the call that returns to `address'. */
static inline void code_call(struct text *t, uintptr_t address)
{
	text_put(t, "usched:   ");
	code_add(t, address - 1);
	text_put(t, "\n");
}

static inline char *code(char text[CODE], const void *address)
{
	struct text t = { .t_bytes = text, .t_room = CODE - 1, .t_fd = -1 };

	code_add(&t, (uintptr_t)address);
	text[t.t_used] = '\0';
	return text;
}

#endif /* USCHED_CODE_H */
