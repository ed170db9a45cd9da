/* SPDX-License-Identifier: MIT */
/* watch/none.h: the hooks of watch/watch.h where no sanitizer has to be told, and what for. */

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
