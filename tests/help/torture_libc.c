/* SPDX-License-Identifier: MIT */
/* torture_libc.c: acts with call-backs and state of libc. */
#define _GNU_SOURCE             /* fopencookie() */
#include "torture.h"

#include <limits.h>
#include <search.h>
#include <stdio.h>

/* ---- Call-backs of libc ---- */

struct item {
	uint32_t     i_key;
	uint32_t     i_more[9];         /* of over 32 bytes glibc sorts pointers */
	struct life *i_life;
};

static int by_key(const void *a, const void *b)
{
	const struct item *x, *y;

	known(&a, sizeof a);
	known(&b, sizeof b);
	x = a;
	y = b;
	if (any(x->i_life, 4) == 0)
		inner(x->i_life);
	return (x->i_key > y->i_key) - (x->i_key < y->i_key);
}

static void make_items(struct life *l, struct item *item, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		item[i] = (struct item){ .i_life = l, .i_key = any(l, UINT32_MAX) };
		fill((unsigned char *)item[i].i_more, sizeof item[i].i_more,
		     item[i].i_key);
	}
}

void sorting(struct life *l)
{
	size_t n = 1 + any(l, ITEMS);
	struct item item[n], *found, key;

	make_items(l, item, n);
	key = item[any(l, (uint32_t)n)];
	qsort(item, n, sizeof *item, by_key);
	for (size_t i = 0; i < n; i++) {
		TEST_TRUE(i == 0 || item[i - 1].i_key <= item[i].i_key);
		check((unsigned char *)item[i].i_more, sizeof item[i].i_more,
		      item[i].i_key);
		add(l, item[i].i_key);
	}
	found = bsearch(&key, item, n, sizeof *item, by_key);
	TEST_TRUE(found && found->i_key == key.i_key);
}

static void visit(const void *node, VISIT order, int level)
{
	const struct item *item;

	known(&node, sizeof node);
	known(&order, sizeof order);
	known(&level, sizeof level);
	known(node, sizeof item);
	item = *(const struct item *const *)node;
	inner(item->i_life);
	if (order == postorder || order == leaf)
		add(item->i_life, item->i_key + (unsigned)level);
}

void tree(struct life *l)
{
	size_t n = 1 + any(l, ITEMS / 4);
	struct item item[n];
	void *root = NULL;

	make_items(l, item, n);
	for (size_t i = 0; i < n; i++)
		TEST_TRUE(tsearch(&item[i], &root, by_key));
	twalk(root, visit);
	for (size_t i = 0; i < n; i++)
		TEST_TRUE(tdelete(&item[i], &root, by_key));
	TEST_TRUE(!root);
}

static ssize_t stream_read(void *cookie, char *buffer, size_t size)
{
	struct life *l;
	size_t n;

	known(&cookie, sizeof cookie);
	known(&buffer, sizeof buffer);
	known(&size, sizeof size);
	l = cookie;
	n = 1 + any(l, (uint32_t)(size < TEXT ? size : TEXT));
	for (size_t i = 0; i < n; i++)
		buffer[i] = any(l, 10) ? (char)('a' + any(l, 26)) : '\n';
	inner(l);
	return (ssize_t)n;
}

static ssize_t stream_write(void *cookie, const char *buffer, size_t size)
{
	struct life *l;

	known(&cookie, sizeof cookie);
	known(&buffer, sizeof buffer);
	known(&size, sizeof size);
	known(buffer, size);
	l = cookie;
	inner(l);
	add_bytes(l, buffer, size);
	return (ssize_t)size;
}

static int stream_close(void *cookie)
{
	known(&cookie, sizeof cookie);
	inner(cookie);
	return 0;
}

/* Not printf() and scanf() on streams that block: see usched(7). */
static void write_some(struct life *l, FILE *stream)
{
	char text[TEXT];

	for (unsigned n = 1 + any(l, 8); n > 0; n--) {
		snprintf(text, sizeof text, "%u %g\n", any(l, 1000), real(l));
		TEST_TRUE(fputs(text, stream) >= 0);
		TEST_TRUE(putc('x', stream) == 'x');
		TEST_EQUAL(fwrite(text, 1, 4, stream), 4);
		if (any(l, 3) == 0)
			TEST_EQUAL(fflush(stream), 0);
	}
}

static void read_some(struct life *l, FILE *stream)
{
	char text[TEXT], *line = NULL;
	size_t size = 0;

	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		TEST_TRUE(fgets(text, sizeof text, stream));
		add_bytes(l, text, strlen(text));
		add(l, (unsigned)ungetc(getc(stream), stream));
		TEST_EQUAL(fread(text, 1, sizeof text, stream), sizeof text);
		add_bytes(l, text, sizeof text);
		TEST_TRUE(getline(&line, &size, stream) > 0);
		add_bytes(l, line, strlen(line));
	}
	free(line);
}

void streams(struct life *l)
{
	static const int modes[] = { _IONBF, _IOLBF, _IOFBF };
	cookie_io_functions_t calls = {
		.read = stream_read, .write = stream_write, .close = stream_close,
	};
	bool reads = any(l, 2);
	FILE *stream = fopencookie(l, reads ? "r" : "w", calls);
	char buffer[TEXT];

	TEST_TRUE(stream);
	TEST_EQUAL(setvbuf(stream, buffer, modes[any(l, 3)], sizeof buffer), 0);
	(reads ? read_some : write_some)(l, stream);
	TEST_EQUAL(fclose(stream), 0);
}

/* ---- libc's own state ---- */

void text(struct life *l)
{
	char number[TEXT], *end;
	int before = l->l_round;

	set_round(l, rounding[any(l, 4)]);
	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		snprintf(number, sizeof number, "%.*Lg", 3 + (int)any(l, 20),
			 (long double)real(l) / 3);
		inner(l);
		add_bytes(l, number, strlen(number));
		add_real(l, strtod(number, &end));
		TEST_TRUE(*end == '\0');
	}
	set_round(l, before);
}

void error_number(struct life *l)
{
	for (unsigned n = 2 + any(l, 6); n > 0; n--) {
		int own = 1 + (int)any(l, 100);

		errno = own;
		pause_here(l);
		TEST_EQUAL(errno, own);
		inner(l);                       /* other acts may set it */
		TEST_EQUAL(strtol("0x10000000000000000", NULL, 0), LONG_MAX);
		pause_here(l);
		TEST_EQUAL(errno, ERANGE);
	}
}

void heap(struct life *l)
{
	uint32_t mark = any(l, UINT32_MAX);
	unsigned char *p = NULL;
	size_t size = 0;

	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		size_t more = 1 + any(l, 1000);

		p = realloc(p, size + more);
		TEST_TRUE(p);
		if (size)
			check(p, size, mark);
		size += more;
		fill(p, size, mark);
		inner(l);
	}
	check(p, size, mark);
	add_bytes(l, p, size);
	free(p);
}
