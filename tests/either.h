/* SPDX-License-Identifier: MIT */
/* either.h: rr and ll behind the same pointers, for tests that run over one after the other. */
#ifndef USCHED_TEST_EITHER_H
#define USCHED_TEST_EITHER_H

#include "../ll.h"
#include "../rr.h"

struct scheduler {
	int (*s_create)(void **s, const struct usched_conf *conf);
	int (*s_destroy)(void *s);
	int (*s_start)(void *s, void (*func)(void *), void *arg, struct ustack **t);
};

static inline int create_rr(void **s, const struct usched_conf *conf)
{
	struct rr *rr = NULL;
	int rc = rr_create(conf, &rr);

	*s = rr;
	return rc;
}

static inline int destroy_rr(void *s)
{
	return rr_destroy(s);
}

static inline int start_rr(void *s, void (*func)(void *), void *arg, struct ustack **t)
{
	return rr_start(s, func, arg, t);
}

static inline int create_ll(void **s, const struct usched_conf *conf)
{
	struct ll *ll = NULL;
	int rc = ll_create(conf, &ll);

	*s = ll;
	return rc;
}

static inline int destroy_ll(void *s)
{
	return ll_destroy(s);
}

static inline int start_ll(void *s, void (*func)(void *), void *arg, struct ustack **t)
{
	return ll_start(s, ll_group(s), func, arg, t);
}

static const struct scheduler schedulers[] = {
	{ create_rr, destroy_rr, start_rr },
	{ create_ll, destroy_ll, start_ll },
};

#endif /* USCHED_TEST_EITHER_H */
