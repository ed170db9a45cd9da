/* SPDX-License-Identifier: MIT */
/* none.h: the hooks of watch.h without a sanitizer, and when each is called. */

/* usched_run() was called. */
static inline void watch_run(struct usched *s)
{
	(void)s;
}

static inline void watch_launch(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
}

static inline void watch_arrive(struct usched *s)
{
	(void)s;
}

static inline void watch_release(struct usched *s, struct ustack *u)
{
	(void)s;
	(void)u;
}
