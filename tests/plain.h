/* SPDX-License-Identifier: MIT */
/*
 * plain.h: the least scheduler, to test the dispatcher with: a ring of runnable
 * threads, first in first out, in which who blocks is put again unless
 * it said otherwise, and call-backs that count and can fail. Not thread-safe.
 */
#ifndef USCHED_TEST_PLAIN_H
#define USCHED_TEST_PLAIN_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../usched.h"
#include "test.h"

enum { PLAIN_RING = 4096, PLAIN_STACKS = 128 };

struct plain {
	struct usched  p_sched;         /* first */
	struct ustack *p_ring[PLAIN_RING];
	unsigned       p_head, p_tail;
	bool           p_wait;          /* who blocks now is not put in the ring */
	bool           p_self;          /* who blocks now is returned at once */
	bool           p_stop;          /* s_next returns NULL once */
	bool           p_no_memory;
	struct ustack *p_done;          /* the last that ended, */
	unsigned       p_dones;         /* and how many */
	unsigned       p_nexts, p_allocs, p_frees;
	size_t         p_bytes;         /* images given and not taken back */
	uintptr_t      p_next_frame;    /* an address in s_next's frame */
	void          *p_stack[PLAIN_STACKS];
	unsigned       p_stacks;
};

static inline void plain_push(struct plain *p, struct ustack *u)
{
	p->p_ring[p->p_tail++ % PLAIN_RING] = u;
}

static inline struct ustack *plain_next(struct usched *s)
{
	struct plain *p = (struct plain *)(void *)s;
	struct ustack *self = ustack_self();

	p->p_nexts++;
	p->p_next_frame = (uintptr_t)__builtin_frame_address(0);
	if (self && p->p_self)
		return self;
	if (self && !p->p_wait)
		plain_push(p, self);
	p->p_wait = false;
	if (p->p_stop || p->p_head == p->p_tail) {
		p->p_stop = false;
		return NULL;
	}
	return p->p_ring[p->p_head++ % PLAIN_RING];
}

/* Behind each image is a canary, so that to write past its end is found. */
enum { PLAIN_CANARY = 0x5a, PLAIN_CANARIES = 16 };

static inline void *plain_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	struct plain *p = (struct plain *)(void *)s;
	char *image = p->p_no_memory ? NULL : malloc(*size + PLAIN_CANARIES);

	(void)u;
	p->p_allocs++;
	if (!image)
		return NULL;
	memset(image, 0xa5, *size);
	memset(image + *size, PLAIN_CANARY, PLAIN_CANARIES);
	p->p_bytes += *size;
	return image;
}

static inline void plain_free(struct usched *s, struct ustack *u, void *image,
			      size_t size)
{
	struct plain *p = (struct plain *)(void *)s;

	(void)u;
	for (size_t i = 0; i < PLAIN_CANARIES; i++)
		TEST_EQUAL(((char *)image)[size + i], PLAIN_CANARY);
	p->p_frees++;
	p->p_bytes -= size;
	free(image);
}

static inline void plain_done(struct usched *s, struct ustack *u)
{
	struct plain *p = (struct plain *)(void *)s;

	TEST_TRUE(!u->u_image);
	p->p_done = u;
	p->p_dones++;
}

/* With `stacks' lent stacks, or as many as the switch can have. */
static inline void plain_init(struct plain *p, unsigned stacks, size_t size)
{
	*p = (struct plain){ .p_sched = {
		.s_next = plain_next, .s_alloc = plain_alloc,
		.s_free = plain_free, .s_done = plain_done,
	} };
	TEST_EQUAL(usched_init(&p->p_sched), 0);
	for (; test_has_stacks() && p->p_stacks < stacks; p->p_stacks++) {
		p->p_stack[p->p_stacks] = malloc(size);
		TEST_TRUE(p->p_stack[p->p_stacks]);
		TEST_EQUAL(usched_lend(&p->p_sched, p->p_stack[p->p_stacks], size), 0);
	}
}

/* All threads must have ended, with all they had. */
static inline void plain_fini(struct plain *p)
{
	struct usched_stats stats;

	TEST_EQUAL(usched_fini(&p->p_sched), 0);
	usched_stats(&p->p_sched, &stats);
	TEST_EQUAL(stats.s_images, 0);
	TEST_EQUAL(stats.s_image_bytes, 0);
	TEST_EQUAL(p->p_bytes, 0);
	while (p->p_stacks > 0)
		free(p->p_stack[--p->p_stacks]);
}

static inline void plain_start(struct plain *p, struct ustack *u,
			       void (*func)(void *), void *arg)
{
	TEST_EQUAL(ustack_init(&p->p_sched, u, func, arg, NULL, 0), 0);
	plain_push(p, u);
}

static inline struct usched_stats plain_stats(const struct plain *p)
{
	struct usched_stats stats;

	usched_stats(&p->p_sched, &stats);
	return stats;
}

/* The dispatcher of the calling thread. */
static inline struct plain *plain_self(void)
{
	return (struct plain *)(void *)ustack_sched(ustack_self());
}

/* Blocks without being put in the ring. */
static inline int plain_wait(void)
{
	plain_self()->p_wait = true;
	return ustack_block();
}

#endif /* USCHED_TEST_PLAIN_H */
