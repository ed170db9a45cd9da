/* SPDX-License-Identifier: MIT */
/*
 * Coroutines: the same fringe, permutations, and a parser that pulls. Build it with
 *
 *   cc -O2 examples/12-coroutine.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -o coroutine
 *
 * after `make one'. It prints:
 *
 *   (1 (2 3)) and ((1 2) 3): same
 *   (1 (2 3)) and ((1 4) 3): different
 *   abc acb bac bca cba cab
 *   1+2*(3+4)*5 = 71
 *   2*(3+ = error
 *
 * Each of the three is a recursive function that stops in the middle. A coroutine gives
 * words, so what is larger is on the heap: neither side may follow a pointer into the
 * frames of the other. The trees here are constants.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched-all.h"

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "coroutine: %s\n", ustack_error(rc));
		exit(1);
	}
}

static struct uco *make(uco_fn *func, void *arg)
{
	struct uco *co;

	check(uco_create(func, arg, &co));
	return co;
}

/* ---- The leaves of a tree, which is written as text ---- */

static void *leaves(void *tree, void *unused)
{
	(void)unused;
	for (const char *c = tree; *c; c++)
		if (isdigit((unsigned char)*c))
			uco_yield((void *)(intptr_t)*c, NULL);
	return NULL;                    /* at the end it gives no leaf */
}

static void compare(const char *a, const char *b)
{
	struct uco *left = make(leaves, (void *)(uintptr_t)a);
	struct uco *right = make(leaves, (void *)(uintptr_t)b);
	void *x, *y;

	do {
		check(uco_resume(left, NULL, &x));
		check(uco_resume(right, NULL, &y));
	} while (x == y && x);
	printf("%s and %s: %s\n", a, b, x == y ? "same" : "different");
	check(uco_close(left));         /* wherever they are */
	check(uco_close(right));
}

/* ---- Permutations of a text on the heap, in place ---- */

static void exchange(char *a, char *b)
{
	char c = *a;

	*a = *b;
	*b = c;
}

static void permute(char *text, size_t from)
{
	if (!text[from])
		uco_yield(text, NULL);
	for (size_t i = from; text[i]; i++) {
		exchange(&text[from], &text[i]);
		permute(text, from + 1);
		exchange(&text[from], &text[i]);
	}
}

static void *permutations(void *text, void *unused)
{
	(void)unused;
	permute(text, 0);
	return NULL;
}

static void print_permutations(const char *of)
{
	char *text = strdup(of);
	struct uco *co = make(permutations, text);
	const char *space = "";
	void *next;

	for (; uco_resume(co, NULL, &next) == 0; space = " ")
		printf("%s%s", space, (const char *)next);
	puts("");
	check(uco_close(co));
	free(text);
}

/* ---- A calculator: the scanner is a coroutine, from which the parser pulls ---- */

enum { NUMBER = 256, END };             /* tokens besides characters; numbers follow */

static void *scan(void *text, void *unused)
{
	const char *c = text;

	(void)unused;
	while (*c) {
		if (isdigit((unsigned char)*c)) {
			char *end;
			unsigned long n = strtoul(c, &end, 10);

			uco_yield((void *)(uintptr_t)NUMBER, NULL);
			uco_yield((void *)(uintptr_t)n, NULL);
			c = end;
		} else {
			uco_yield((void *)(uintptr_t)(unsigned char)*c++, NULL);
		}
	}
	return (void *)(uintptr_t)END;
}

struct parser {
	struct uco *tokens;
	uintptr_t   token;
	int         failed;
};

static void pull(struct parser *p)
{
	void *token = (void *)(uintptr_t)END;

	if (uco_status(p->tokens) != UCO_ENDED)
		check(uco_resume(p->tokens, NULL, &token));
	p->token = (uintptr_t)token;
}

static unsigned long sum(struct parser *p);

static unsigned long factor(struct parser *p)
{
	unsigned long n = 0;

	if (p->token == NUMBER) {
		pull(p);
		n = p->token;
	} else if (p->token == '(') {
		pull(p);
		n = sum(p);
		p->failed |= p->token != ')';
	} else {
		p->failed = 1;
	}
	pull(p);
	return n;
}

static unsigned long product(struct parser *p)
{
	unsigned long n = factor(p);

	while (p->token == '*') {
		pull(p);
		n *= factor(p);
	}
	return n;
}

static unsigned long sum(struct parser *p)
{
	unsigned long n = product(p);

	while (p->token == '+') {
		pull(p);
		n += product(p);
	}
	return n;
}

static void calculate(const char *text)
{
	struct parser p = { .tokens = make(scan, (void *)(uintptr_t)text) };
	unsigned long n;

	pull(&p);
	n = sum(&p);
	if (p.failed || p.token != END)
		printf("%s = error\n", text);
	else
		printf("%s = %lu\n", text, n);
	check(uco_close(p.tokens));
}

static void run(void *unused)
{
	(void)unused;
	compare("(1 (2 3))", "((1 2) 3)");
	compare("(1 (2 3))", "((1 4) 3)");
	print_permutations("abc");
	calculate("1+2*(3+4)*5");
	calculate("2*(3+");
}

int main(void)
{
	struct uprocs *rr;

	check(rr_create(NULL, &rr));
	check(rr_start(rr, run, NULL, NULL));
	check(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}
