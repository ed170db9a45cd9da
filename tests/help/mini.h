/* SPDX-License-Identifier: MIT */
/*
 * mini.h: the least scheduler, for tests of the dispatcher: a ring of runnable threads,
 * first in, first out. A thread that blocks gets into the ring again, unless p_wait is
 * set. Call-backs count, and can fail. Not thread-safe.
 */
#ifndef USCHED_TEST_MINI_H
#define USCHED_TEST_MINI_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../ustack.h"
#include "test.h"

enum { MINI_RING = 4096, MINI_STACKS = 128 };

struct mini {
	struct usched  p_sched;         /* first */
	struct ustack *p_ring[MINI_RING];
	unsigned       p_head, p_tail;
	bool           p_wait;          /* the next block is not put in the ring */
	bool           p_self;          /* blocks return at once */
	bool           p_stop;          /* s_next returns NULL once */
	bool           p_no_memory;
	struct ustack *p_done;          /* the last that ended */
	unsigned       p_dones;         /* how many ended */
	unsigned       p_nexts, p_allocs, p_frees;
	size_t         p_bytes;         /* of images given and not taken back */
	const void    *p_next_frame;    /* an address in s_next's frame */
	void          *p_stack[MINI_STACKS];
	unsigned       p_stacks;
};

static inline void mini_push(struct mini *p, struct ustack *u)
{
	p->p_ring[p->p_tail++ % MINI_RING] = u;
}

static inline struct ustack *mini_next(struct usched *s)
{
	struct mini *p = (struct mini *)(void *)s;
	struct ustack *self = ustack_self();

	p->p_nexts++;
	p->p_next_frame = __builtin_frame_address(0);
	if (self && p->p_self)
		return self;
	if (self && !p->p_wait)
		mini_push(p, self);
	p->p_wait = false;
	if (p->p_stop || p->p_head == p->p_tail) {
		p->p_stop = false;
		return NULL;
	}
	return p->p_ring[p->p_head++ % MINI_RING];
}

/* A canary behind each image finds writes past the end. */
enum { MINI_CANARY = 0x5a, MINI_CANARIES = 16 };

static inline void *mini_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	struct mini *p = (struct mini *)(void *)s;
	char *image = p->p_no_memory ? NULL : malloc(*size + MINI_CANARIES);

	(void)u;
	p->p_allocs++;
	if (!image)
		return NULL;
	memset(image, 0xa5, *size);
	memset(image + *size, MINI_CANARY, MINI_CANARIES);
	p->p_bytes += *size;
	return image;
}

static inline void mini_free(struct usched *s, struct ustack *u, void *image,
			      size_t size)
{
	struct mini *p = (struct mini *)(void *)s;

	(void)u;
	for (size_t i = 0; i < MINI_CANARIES; i++)
		TEST_EQUAL(((char *)image)[size + i], MINI_CANARY);
	p->p_frees++;
	p->p_bytes -= size;
	free(image);
}

static inline void mini_done(struct usched *s, struct ustack *u)
{
	struct mini *p = (struct mini *)(void *)s;

	TEST_TRUE(!u->u_outside);
	p->p_done = u;
	p->p_dones++;
}

static const struct usched_calls mini_calls = {
	.s_next = mini_next, .s_alloc = mini_alloc,
	.s_free = mini_free, .s_done = mini_done,
};

/* With so many lent stacks, or with none where the switch has only the native one. */
static inline void mini_init(struct mini *p, unsigned stacks, size_t size)
{
	*p = (struct mini){ .p_stacks = 0 };
	TEST_EQUAL(usched_init(&p->p_sched, &mini_calls), 0);
	for (; test_has_stacks() && p->p_stacks < stacks; p->p_stacks++) {
		void *stack = malloc(size);

		TEST_TRUE(stack);
		TEST_EQUAL(usched_add_stack(&p->p_sched, stack, size), 0);
		p->p_stack[p->p_stacks] = stack;
	}
}

/* All threads must have ended, and all images have come back. */
static inline void mini_fini(struct mini *p)
{
	struct usched_stats stats;

	TEST_EQUAL(usched_fini(&p->p_sched), 0);
	usched_stats(&p->p_sched, &stats);
	TEST_EQUAL(stats.st_images, 0);
	TEST_EQUAL(stats.st_image_bytes, 0);
	TEST_EQUAL(p->p_bytes, 0);
	while (p->p_stacks > 0)
		free(p->p_stack[--p->p_stacks]);
}

static inline void mini_start(struct mini *p, struct ustack *u,
			       void (*func)(void *), void *arg)
{
	TEST_EQUAL(ustack_init(&p->p_sched, u, func, arg), 0);
	mini_push(p, u);
}

static inline struct usched_stats mini_stats(const struct mini *p)
{
	struct usched_stats stats;

	usched_stats(&p->p_sched, &stats);
	return stats;
}

/* The dispatcher of the calling thread. */
static inline struct mini *mini_self(void)
{
	return (struct mini *)(void *)ustack_sched(ustack_self());
}

/* Blocks without being put in the ring. */
static inline int mini_wait(void)
{
	mini_self()->p_wait = true;
	return ustack_block();
}

#endif /* USCHED_TEST_MINI_H */
