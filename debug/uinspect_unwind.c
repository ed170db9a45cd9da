/* SPDX-License-Identifier: MIT */
/*
 * uinspect_unwind.c: the calls of a thread that runs, from its snap. An unwinder of the
 * compiler walks the stack that it is on; this one reads the same tables (.eh_frame) and
 * walks the copy.
 *
 * For each call the table has a program: of its instructions those count that come before
 * the place of the call. They say where the frame ends (CFA), and where registers were
 * saved in it.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* process_vm_readv() */
#endif
#include "snap.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "../arch/arch.h"

enum {
	REGISTERS = 33,                 /* of arch/: DWARF's numbers, and the PC last */
	SAVED     = 4,                  /* states that are remembered */
	STACK     = 16,                 /* values of an expression */
};

/* By libgcc and LLVM's libunwind; a program may be linked without either. */
struct bases {
	void *b_text, *b_data, *b_function;
};
const void *_Unwind_Find_FDE(const void *pc, struct bases *bases)
	__attribute__((weak));

enum how { SAME, UNDEFINED, AT, IS, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION };

/* Where the caller's value of a register is; of the CFA: a register and an offset. */
struct rule {
	enum how       r_how;
	unsigned       r_register;
	intptr_t       r_offset;
	const uint8_t *r_expression;
};

struct row {
	struct rule w_cfa;
	struct rule w_rules[REGISTERS];
};

/* A walk over a program. */
struct walk {
	const uint8_t *k_at;
	const uint8_t *k_end;
	uintptr_t      k_place;         /* the code that the row is for, */
	uintptr_t      k_until;         /* and that is wanted */
	uintptr_t      k_unit;          /* of code, */
	intptr_t       k_step;          /* and of offsets */
	unsigned       k_return;        /* register of the return address */
	bool           k_signal;        /* the frame of a signal: PC is no call's */
	struct row     k_row;
	struct row     k_first;         /* of the function */
	struct row     k_saved[SAVED];
	unsigned       k_count;
};

/* Seven bits in each byte. */
static uintptr_t read_number(struct walk *w, bool is_signed)
{
	uintptr_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = w->k_at < w->k_end ? *w->k_at++ : 0;
		if (shift < 8 * sizeof value)
			value |= (uintptr_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 8 * sizeof value)
		value |= -((uintptr_t)1 << shift);
	return value;
}

static uintptr_t read_unsigned(struct walk *w)
{
	return read_number(w, false);
}

static intptr_t read_signed(struct walk *w)
{
	return (intptr_t)read_number(w, true);
}

static uintptr_t read_bytes(struct walk *w, size_t n)
{
	uintptr_t value = 0;

	if (n <= sizeof value && (size_t)(w->k_end - w->k_at) >= n)
		memcpy(&value, w->k_at, n);     /* little endian, as the machines are */
	w->k_at += n;
	return value;
}

static size_t encoded_size(uint8_t encoding)
{
	static const uint8_t sizes[] = { sizeof(void *), 0, 2, 4, 8 };

	return (encoding & 7) <= 4 ? sizes[encoding & 7] : 0;
}

/* What the augmentation of a CIE says. The encoding of addresses in the FDE. */
static uint8_t read_augmentation(struct walk *w, const char *text)
{
	uint8_t encoding = 0, pointer;

	if (*text++ != 'z')
		return encoding;
	read_unsigned(w);
	for (; *text; text++) {
		if (*text == 'R') {
			encoding = (uint8_t)read_bytes(w, 1);
		} else if (*text == 'P') {
			pointer = (uint8_t)read_bytes(w, 1);
			read_bytes(w, encoded_size(pointer));
		} else if (*text == 'L') {
			read_bytes(w, 1);
		} else if (*text == 'S') {
			w->k_signal = true;
		}
	}
	return encoding;
}

/* Bytes of an entry behind its length. */
static const uint8_t *entry_at(struct walk *w, const uint8_t *at)
{
	uint32_t length;

	memcpy(&length, at, 4);
	w->k_at = at + 4;
	w->k_end = length < 0xfffffff0 ? w->k_at + length : w->k_at;
	return w->k_at;
}

static void advance(struct walk *w, uintptr_t units)
{
	w->k_place += units * w->k_unit;
	if (w->k_place > w->k_until)
		w->k_at = w->k_end;             /* the rest is for later code */
}

static void set_rule(struct walk *w, uintptr_t number, enum how how, intptr_t offset)
{
	if (number < REGISTERS)
		w->k_row.w_rules[number] = (struct rule){ how, 0, offset, NULL };
}

static bool remember(struct walk *w, uint8_t op)
{
	if (op == 0x0a && w->k_count < SAVED)
		w->k_saved[w->k_count++] = w->k_row;
	else if (op == 0x0b && w->k_count > 0)
		w->k_row = w->k_saved[--w->k_count];
	else
		return false;
	return true;
}

/* An expression stays where it is. */
static void set_expression(struct walk *w, struct rule *rule, enum how how)
{
	const uint8_t *at = w->k_at;

	w->k_at += read_unsigned(w);
	if (rule)
		*rule = (struct rule){ how, 0, 0, at };
}

static bool run_cfa(struct walk *w, uint8_t op)
{
	struct rule *cfa = &w->k_row.w_cfa;

	if (op == 0x0c || op == 0x0d || op == 0x12)
		cfa->r_register = (unsigned)read_unsigned(w);
	if (op == 0x0c || op == 0x0e)
		cfa->r_offset = (intptr_t)read_unsigned(w);
	else if (op == 0x12 || op == 0x13)
		cfa->r_offset = read_signed(w) * w->k_step;
	if (op == 0x0f) {
		set_expression(w, cfa, IS_EXPRESSION);
		return true;
	}
	cfa->r_how = IN_REGISTER;
	cfa->r_expression = NULL;
	return cfa->r_register < REGISTERS;
}

/* By the numbers of DW_CFA_*. */
static bool run_extended(struct walk *w, uint8_t op)
{
	uintptr_t number;

	if (op == 0x00 || op == 0x2d)           /* nop; a signed return address */
		return true;
	if (op >= 0x02 && op <= 0x04) {
		advance(w, read_bytes(w, (size_t)1 << (op - 2)));
		return true;
	}
	if (op == 0x0a || op == 0x0b)
		return remember(w, op);
	if ((op >= 0x0c && op <= 0x0f) || op == 0x12 || op == 0x13)
		return run_cfa(w, op);
	number = read_unsigned(w);              /* of a register; 0x2e: a size */
	if (op == 0x05)
		set_rule(w, number, AT, (intptr_t)read_unsigned(w) * w->k_step);
	else if (op == 0x11)
		set_rule(w, number, AT, read_signed(w) * w->k_step);
	else if (op == 0x14)
		set_rule(w, number, IS, (intptr_t)read_unsigned(w) * w->k_step);
	else if (op == 0x06 && number < REGISTERS)
		w->k_row.w_rules[number] = w->k_first.w_rules[number];
	else if (op == 0x07 || op == 0x08)
		set_rule(w, number, op == 0x07 ? UNDEFINED : SAME, 0);
	else if (op == 0x09)
		set_rule(w, number, IN_REGISTER, (intptr_t)read_unsigned(w));
	else if (op == 0x10 || op == 0x16)
		set_expression(w, number < REGISTERS ? &w->k_row.w_rules[number] : NULL,
			       op == 0x10 ? AT_EXPRESSION : IS_EXPRESSION);
	else
		return op == 0x2e;
	return true;
}

static bool run_program(struct walk *w)
{
	while (w->k_at < w->k_end) {
		uint8_t op = *w->k_at++, low = op & 0x3f;

		if (op >> 6 == 1)
			advance(w, low);
		else if (op >> 6 == 2)
			set_rule(w, low, AT, (intptr_t)read_unsigned(w) * w->k_step);
		else if (op >> 6 == 3 && low < REGISTERS)
			w->k_row.w_rules[low] = w->k_first.w_rules[low];
		else if (!run_extended(w, op))
			return false;
	}
	return true;
}

/* Finds the row for code at `pc'. False: there is none. */
static bool find_row(struct walk *w, uintptr_t pc, bool call)
{
	struct bases bases = { 0 };
	const void *fde = _Unwind_Find_FDE ? _Unwind_Find_FDE((void *)(pc - call), &bases)
		: NULL;
	const uint8_t *body;
	const char *augmentation;
	uint8_t encoding;
	int32_t back;

	*w = (struct walk){ .k_place = (uintptr_t)bases.b_function };
	if (!fde)
		return false;
	body = entry_at(w, (const uint8_t *)fde);
	memcpy(&back, body, 4);
	entry_at(w, body - back);
	w->k_at += 4 + 1;                       /* its mark, version */
	augmentation = (const char *)w->k_at;
	w->k_at += strlen(augmentation) + 1;
	w->k_unit = read_unsigned(w);
	w->k_step = read_signed(w);
	w->k_return = (unsigned)read_unsigned(w);
	encoding = read_augmentation(w, augmentation);
	w->k_until = UINTPTR_MAX;
	if (w->k_return >= REGISTERS || !run_program(w))
		return false;
	w->k_first = w->k_row;
	entry_at(w, (const uint8_t *)fde);
	w->k_at += 4 + 2 * encoded_size(encoding);
	if (*augmentation == 'z')
		w->k_at += read_unsigned(w);
	w->k_until = pc - (call && !w->k_signal);
	return run_program(w);
}

/* A word of the copy, or elsewhere in memory. False: it is not there. */
static bool read_word(const struct uinspect_snap *s, uintptr_t address, uintptr_t *word)
{
	struct iovec to = { word, sizeof *word };
	struct iovec from = { (void *)address, sizeof *word };

	if (address - s->s_low <= s->s_size && s->s_size - (address - s->s_low)
	    >= sizeof *word) {
		memcpy(word, s->s_bytes + (address - s->s_low), sizeof *word);
		return true;
	}
	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof *word;
}

static bool binary(uint8_t op, uintptr_t a, uintptr_t b, uintptr_t *result)
{
	if (op == 0x1a)
		*result = a & b;
	else if (op == 0x1c)
		*result = a - b;
	else if (op == 0x22)
		*result = a + b;
	else if (op == 0x24)
		*result = a << b % (8 * sizeof a);
	else if (op == 0x2a)
		*result = (intptr_t)a >= (intptr_t)b;
	else
		return false;
	return true;
}

/* Of DW_OP_*, those in the tables of compilers, of libc and of arch/. */
static bool evaluate(const struct uinspect_snap *s, const uintptr_t *regs,
		     const uint8_t *at, uintptr_t first, uintptr_t *result)
{
	struct walk w = { .k_at = at, .k_end = at + 16 };
	uintptr_t stack[STACK] = { first }, size = read_unsigned(&w);
	size_t n = 1;

	for (w.k_end = w.k_at + size; w.k_at < w.k_end; ) {
		uint8_t op = *w.k_at++;

		if (n + 1 >= STACK)
			return false;
		if (op >= 0x30 && op <= 0x4f) {
			stack[n++] = op - 0x30u;
		} else if (op >= 0x70 && op <= 0x8f) {
			stack[n++] = regs[op - 0x70] + (uintptr_t)read_signed(&w);
		} else if (op == 0x06) {
			if (!read_word(s, stack[n - 1], &stack[n - 1]))
				return false;
		} else if (op == 0x08 || op == 0x0a) {
			stack[n++] = read_bytes(&w, op == 0x08 ? 1 : 2);
		} else if (op == 0x11) {
			stack[n++] = (uintptr_t)read_signed(&w);
		} else if (op == 0x23) {
			stack[n - 1] += read_unsigned(&w);
		} else if (n < 2
			   || !binary(op, stack[n - 2], stack[n - 1], &stack[n - 2])) {
			return false;
		} else {
			n--;
		}
	}
	*result = stack[n - 1];
	return true;
}

static bool restore_register(const struct uinspect_snap *s, const struct rule *rule,
			     const uintptr_t *regs, uintptr_t cfa, uintptr_t *value)
{
	uintptr_t address = cfa + (uintptr_t)rule->r_offset;

	if (rule->r_how == AT)
		return read_word(s, address, value);
	if (rule->r_how == IS)
		*value = address;
	if (rule->r_how == IN_REGISTER && (uintptr_t)rule->r_offset < REGISTERS)
		*value = regs[rule->r_offset];
	if (rule->r_how == AT_EXPRESSION)
		return evaluate(s, regs, rule->r_expression, cfa, &address)
			&& read_word(s, address, value);
	if (rule->r_how == IS_EXPRESSION)
		return evaluate(s, regs, rule->r_expression, cfa, value);
	return rule->r_how != UNDEFINED;
}

/* From a call to its caller. False: there is none. */
static bool step_to_caller(const struct uinspect_snap *s, struct walk *w,
			   uintptr_t regs[REGISTERS], uint64_t *known, bool call)
{
	const unsigned pc = usched__registers - 1;
	const struct row *row = &w->k_row;
	uintptr_t before[REGISTERS], cfa;

	memcpy(before, regs, sizeof before);
	if (!find_row(w, regs[pc], call))
		return false;
	cfa = before[row->w_cfa.r_register] + (uintptr_t)row->w_cfa.r_offset;
	if (row->w_cfa.r_how == IS_EXPRESSION) {
		if (!evaluate(s, before, row->w_cfa.r_expression, 0, &cfa))
			return false;
	} else if (!(*known >> row->w_cfa.r_register & 1)) {
		return false;
	}
	regs[usched__sp] = cfa;
	for (unsigned i = 0; i < usched__registers; i++) {
		bool found;

		if (row->w_rules[i].r_how == SAME)
			continue;
		found = restore_register(s, &row->w_rules[i], before, cfa, &regs[i]);
		*known = (*known & ~((uint64_t)1 << i)) | (uint64_t)found << i;
		if (!found && (i == w->k_return || i == usched__sp))
			return false;
	}
	regs[pc] = regs[w->k_return];
	if (sizeof regs[pc] > 4)                /* without a signature */
		regs[pc] &= UINTPTR_MAX >> 16;
	return regs[pc] != 0 && *known >> w->k_return & 1;
}

size_t uinspect__calls(const struct uinspect_snap *s, uintptr_t calls[SNAP_FRAMES])
{
	uint64_t known = s->s_known;
	uintptr_t regs[REGISTERS];
	bool call = false;
	struct walk w;
	size_t n = 0;

	/* Mentioned, so that the unwinder with the weak function above is linked. */
	__asm__ volatile("" : : "r"(_Unwind_Backtrace));
	if (usched__registers == 0)
		return 0;
	memcpy(regs, s->s_registers, sizeof regs);
	while (n < SNAP_FRAMES) {
		calls[n++] = regs[usched__registers - 1] + !call;
		if (!step_to_caller(s, &w, regs, &known, call))
			break;
		call = !w.k_signal;
	}
	return n;
}
