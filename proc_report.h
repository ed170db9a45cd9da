/* SPDX-License-Identifier: MIT */
/*
 * proc_report.h: a part of proc.c: what is told of a deadlock. All of it runs while every
 * processor is parked, so threads and what they wait for stand still.
 *
 *	usched: deadlock: threads that wait and that nothing can wake: 3
 *	usched:   thread A, function F, waits for mutex M, held by thread B, at W
 *	usched:   thread B, function F, joins thread A, at W
 *	usched:   thread C, function F, waits for a wake, at W
 *	usched:   cycle of 2 threads: A, B
 *
 * in which each thread of the cycle waits for the next, and the last for the first.
 * Who holds something may be an outsider, too: a native thread, or a thread of another
 * scheduler. Functions, and where a thread waits, are addresses as addr2line wants them:
 * in memory, and behind it in the file, with the symbol if the dynamic linker has one.
 * Where it waits is the last byte of its call.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>

enum {
	REPORT_MAX = 20,                /* threads listed one by one, and cycles, */
	CYCLE_MAX  = 8,                 /* and threads of a cycle */
	LINE       = 640,               /* characters in a line; what is longer is cut off, */
	CODE       = 192,               /* also of a line what an address takes */
};

/* Where there is none, in static programs for instance, it is done without. */
extern __typeof__(dladdr) dladdr __attribute__((weak));

/* What a walk over the records finds when all processors are parked. */
struct report {
	struct uprocs       *r_procs;
	unsigned             r_waiting; /* threads */
	unsigned             r_joining; /* of these, in uproc_join() */
	struct uproc_thread *r_told;    /* those of them that are to be told */
	struct edge         *r_edges;   /* sorted; NULL: there is no memory for them */
	size_t               r_count;
	size_t               r_room;
	uintptr_t            r_sought;
	const struct uproc_thread *r_found;
};

/* A thread, and who has what it waits for. */
struct edge {
	uintptr_t e_from;
	uintptr_t e_to;
	size_t    e_walk;               /* the number of the walk that came by; 0: none did */
};

static void count_stuck(void *record, void *report);
static void add_edge(void *record, void *report);
static int  compare_edges(const void *a, const void *b);
static struct edge *find_edge(const struct report *report, uintptr_t from);
static void list_stuck(void *record, void *report);
static void explain(const struct uproc_thread *t, struct ustack_why *why);
static const void *find_join(const struct uproc_thread *t);
static const char *holder(struct report *report, uintptr_t who, char text[CODE]);
static void match_thread(void *record, void *report);
static char *code(char text[CODE], const void *address);
static void list_cycles(const struct report *report);
static void list_cycle(const struct report *report, const struct edge *e);
static void mail_joiner(void *record, void *report);
static void print(const struct uprocs *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * All processors are parked and threads are left. Reports them, and tells the
 * threads that join others; false if there are none of these. To be told first
 * is theirs: they can go on and perhaps end what native threads wait for.
 */
static bool report_stuck(struct uprocs *r)
{
	struct report report = { .r_procs = r };
	struct uproc_thread *t, *next;

	uimage_pool_walk(&r->r_images, count_stuck, &report);
	print(r, "usched: deadlock: threads that wait and that nothing can wake: %u",
	      report.r_waiting);
	report.r_edges = calloc(report.r_room, sizeof *report.r_edges);
	if (report.r_edges) {
		uimage_pool_walk(&r->r_images, add_edge, &report);
		qsort(report.r_edges, report.r_count, sizeof *report.r_edges, compare_edges);
	}
	report.r_waiting = 0;
	uimage_pool_walk(&r->r_images, list_stuck, &report);
	if (report.r_waiting > REPORT_MAX)
		print(r, "usched:   and %u more", report.r_waiting - REPORT_MAX);
	list_cycles(&report);
	free(report.r_edges);
	uimage_pool_walk(&r->r_images, mail_joiner, &report);
	for (t = report.r_told; t; t = next) {
		next = t->t_next;
		push_inbox(uproc_of(&t->t_stack), t);
	}
	return report.r_joining > 0;
}

static bool joins(const struct uproc_thread *t)
{
	int32_t tokens = t->t_stack.u_tokens;

	return t->t_stack.u_func && tokens >= UPROC_JOINING && tokens < UPROC_WAITING
		&& !(tokens & UPROC_NEWS);
}

static bool waits(const struct uproc_thread *t)
{
	return joins(t) || (t->t_stack.u_func && t->t_stack.u_tokens == UPROC_WAITING);
}

static void count_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = record;
	struct report *report = arg;

	if (waits(t)) {
		report->r_waiting++;
		report->r_joining += joins(t);
		report->r_room += joins(t) || t->t_stack.u_attached;
	}
}

/* From who waits for the thread, if it joins it; and to who has what the thread waits for. */
static void add_edge(void *record, void *arg)
{
	struct uproc_thread *t = record, *joiner = LOAD(t->t_joiner);
	struct report *report = arg;
	struct ustack_why why;

	/* None of the marks joins. */
	if (t->t_stack.u_func && joiner && joins(joiner) && report->r_count < report->r_room)
		report->r_edges[report->r_count++] =
			(struct edge){ (uintptr_t)joiner, (uintptr_t)t, 0 };
	if (!waits(t) || joins(t))
		return;
	explain(t, &why);
	if (why.y_holder && report->r_count < report->r_room)
		report->r_edges[report->r_count++] =
			(struct edge){ (uintptr_t)t, why.y_holder, 0 };
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *one = a, *other = b;

	return (one->e_from > other->e_from) - (one->e_from < other->e_from);
}

static struct edge *find_edge(const struct report *report, uintptr_t from)
{
	const struct edge key = { .e_from = from };

	return report->r_count == 0 ? NULL
		: bsearch(&key, report->r_edges, report->r_count, sizeof key, compare_edges);
}

static void list_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = record;
	struct report *report = arg;
	const struct edge *e;
	struct ustack_why why;
	char function[CODE], where[CODE], held[CODE];

	if (!waits(t) || ++report->r_waiting > REPORT_MAX)
		return;
	explain(t, &why);
	/* ISO C lets a function's address go through an integer only. */
	code(function, (const void *)(uintptr_t)ustack_func(&t->t_stack));
	if (why.y_where)
		code(where, (const char *)why.y_where - 1);
	if (joins(t)) {
		e = find_edge(report, (uintptr_t)t);
		snprintf(why.y_what, sizeof why.y_what, "thread %p", e ? (void *)e->e_to : NULL);
	}
	print(report->r_procs, "usched:   thread %p, function %s, %s %s%s%s%s", record, function,
	      joins(t) ? "joins" : "waits for", why.y_what,
	      holder(report, why.y_holder, held),
	      why.y_where ? ", at " : "", why.y_where ? where : "");
}

/* What its scheduler does not know, whoever made it wait does. */
static void explain(const struct uproc_thread *t, struct ustack_why *why)
{
	struct ustack_local *l = t->t_stack.u_attached ? t->t_stack.u_local : NULL;

	*why = (struct ustack_why){ .y_what = "a wake" };
	if (l && l->l_describe)
		l->l_describe(l, why);
	if (!why->y_where && joins(t))
		why->y_where = find_join(t);
	if (!why->y_where)
		why->y_where = usched__where(&t->t_stack);
}

static const void *find_join(const struct uproc_thread *t)
{
	const struct uproc *p = uproc_of(&t->t_stack);

	for (size_t i = 1; i < p->p_join_room; i++)
		if (p->p_joins[i].j_thread == t)
			return p->p_joins[i].j_where;
	return NULL;
}

static const char *holder(struct report *report, uintptr_t who, char text[CODE])
{
	text[0] = '\0';
	report->r_sought = who;
	report->r_found = NULL;
	if (who == 0)
		return text;
	uimage_pool_walk(&report->r_procs->r_images, match_thread, report);
	snprintf(text, CODE, ", held by %s 0x%" PRIxPTR "%s",
		 report->r_found ? "thread" : "an outsider,", who,
		 report->r_found && !report->r_found->t_stack.u_func ? ", which has ended" : "");
	return text;
}

static void match_thread(void *record, void *arg)
{
	struct report *report = arg;

	if ((uintptr_t)record == report->r_sought)
		report->r_found = record;
}

static char *code(char text[CODE], const void *address)
{
	int n = snprintf(text, CODE, "%p", address);
	const char *file;
	Dl_info info;

	if (!dladdr || !dladdr(address, &info) || !info.dli_fname)
		return text;
	file = strrchr(info.dli_fname, '/');
	snprintf(text + n, CODE - (size_t)n, " (%s+0x%tx%s%s)", file ? file + 1 : info.dli_fname,
		 (const char *)address - (const char *)info.dli_fbase,
		 info.dli_sname ? " " : "", info.dli_sname ? info.dli_sname : "");
	return text;
}

/* From each thread on, until there is no way or somebody has come by. */
static void list_cycles(const struct report *report)
{
	unsigned listed = 0;

	for (size_t i = 0; i < report->r_count && listed < REPORT_MAX; i++) {
		struct edge *e = &report->r_edges[i];

		for (; e && e->e_walk == 0; e = find_edge(report, e->e_to))
			e->e_walk = i + 1;
		if (!e || e->e_walk != i + 1)
			continue;
		list_cycle(report, e);
		listed++;
	}
}

/* Of which `e' is a part; from the lowest address on. */
static void list_cycle(const struct report *report, const struct edge *e)
{
	const struct edge *first = e, *at;
	char text[LINE / 2] = "";
	unsigned count = 0;
	size_t n = 0;

	for (at = find_edge(report, e->e_to); at != e; at = find_edge(report, at->e_to))
		if (at->e_from < first->e_from)
			first = at;
	at = first;
	do {
		if (count++ < CYCLE_MAX)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s0x%" PRIxPTR,
					      count > 1 ? ", " : "", at->e_from);
		at = find_edge(report, at->e_to);
	} while (at != first);
	print(report->r_procs, "usched:   cycle of %u threads: %s%s", count, text,
	      count > CYCLE_MAX ? ", ..." : "");
}

/*
 * Mail for a thread that joins, whose u_mail is empty. It is pushed when all have
 * theirs: the first that is pushed runs, and the records stand still no longer.
 */
static void mail_joiner(void *record, void *arg)
{
	struct uproc_thread *t = record;
	struct report *report = arg;

	if (joins(t) && FETCH_OR(&t->t_stack.u_mail, UPROC_MAIL_DEADLOCK) == 0) {
		t->t_next = report->r_told;
		report->r_told = t;
	}
}

static void print(const struct uprocs *r, const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (r->r_conf.c_log)
		r->r_conf.c_log(line);
	else
		fprintf(stderr, "%s\n", line);
}
