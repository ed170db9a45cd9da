/* SPDX-License-Identifier: MIT */
/*
 * report.h: what the tests of deadlock reports share: the lines of a report, and ways to
 * wait. Each way is a function in a section of its own, so a test can tell whether the
 * reported address is in it.
 */
#ifndef USCHED_TEST_REPORT_H
#define USCHED_TEST_REPORT_H

#include "sync.h"
#include "where.h"

/* ---- Lines ---- */

enum { LINES = 64, LINE_SIZE = 1024 };

extern char lines[LINES][LINE_SIZE];
extern unsigned line_count;

/* A c_log that appends to `lines'. */
void keep_line(const char *line);

/* A scheduler that reports to `log'. No lines are left. */
void *make_told(const struct uprocs_conf *conf, void (*log)(const char *line));

/* The only line with such a text; NULL: there is none. */
const char *line_with(const char *text);

/* ---- Ways to wait ---- */

/* Objects that all waits block at, kept by the tester. */
struct objects {
	struct usync_mutex   mutex;
	struct usync_rwlock  written;
	struct usync_rwlock  read;
	struct usync_mutex   with;
	struct usync_cond    cond;
	struct usync_sem     sem;
	struct usync_group   group;
	struct usync_chan   *chan[3];           /* to send, to receive, and for both */
	int                  value;
	struct ustack       *thread;
};

extern struct objects to;

/* X(name, call, its result after help_out()) */
#define FOR_WAITS(X) \
	X(at_mutex, usync_mutex_lock(&to.mutex, USCHED_NEVER), -ECANCELED) \
	X(at_read, usync_rwlock_read(&to.written, USCHED_NEVER), -ECANCELED) \
	X(at_write, usync_rwlock_write(&to.read, USCHED_NEVER), -ECANCELED) \
	X(at_cond, on_cond(), -ECANCELED) \
	X(at_sem, usync_sem_wait(&to.sem, USCHED_NEVER), -ECANCELED) \
	X(at_group, usync_group_wait(&to.group, USCHED_NEVER), -ECANCELED) \
	X(at_send, usync_chan_send(to.chan[0], &to.value, USCHED_NEVER), -ECANCELED) \
	X(at_recv, usync_chan_recv(to.chan[1], &to.value, USCHED_NEVER), -ECANCELED) \
	X(at_select, on_channels(0, to.chan[2]), -ECANCELED) \
	X(at_nothing, on_channels(0, NULL), -ECANCELED) \
	X(at_time, usync_sleep_until(USCHED_NEVER), -ECANCELED) \
	X(at_grant, on_grant(), -ECANCELED) \
	X(at_wake, ustack_wait(), 0) \
	X(at_join, ustack_join(to.thread, NULL, USCHED_NEVER), -EDEADLK) \
	X(at_later_join, on_later_join(), -EDEADLK)

#define ORDINAL(name, call, error) WAIT_##name,
enum { FOR_WAITS(ORDINAL) WAITS };

struct way {
	const char *w_name;
	void      (*w_func)(void *);
	const char *w_start;            /* its section */
	const char *w_stop;
};

extern const struct way ways[WAITS];

void prepare_waits(void);
void end_waits(void);

/*
 * Checks that a line has the function of `w', the text, and behind it, unless it tells of
 * a join, an address in the function. In ustack_wait() only the switch knows the address,
 * so it may be in a callee.
 */
void check_text(const char *line, const struct way *w, const char *text);

/* Checks the line of a thread that waits in such a way. */
void check_line(const struct ustack *u, int way);

/* Ends a wait, except for joins: their scheduler ends these. */
void help_out(struct ustack *u, int way);

#endif /* USCHED_TEST_REPORT_H */
