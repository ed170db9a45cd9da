/* SPDX-License-Identifier: MIT */
/*
 * tell.c: the report of a run that fails, with the threads and the last steps; and the
 * trace. A report allocates no memory and takes no lock, since a signal may have ended
 * the run anywhere. Places in the code are offsets in files, so that each run of a seed
 * reports the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../src/base/code.h"
#include "../uwait.h"
#include "host.h"

enum {
	THREADS  = 32,                  /* threads shown */
	LAST     = 64,                  /* events shown */
	KEPT     = 1024,                /* events kept */
	FEW      = 32,                  /* a sentence tells so many choices and faults */
	USES     = 512,                 /* objects whose last uses are known */
	MARKED   = 256,                 /* choices and faults shown */
	BINARIES = 64,                  /* files in memory whose lines are shown */
};

/*
 * Event number n is events[n % KEPT]. Choices and faults are also marks, by their own
 * numbers; so are chosen numbers, which are o_object then. If there is one, v_other is
 * what the usual thread was about to do when another thread was chosen, or what the
 * running thread was about to do in a fault.
 */
static struct event {
	struct sim_event v_event, v_other;
	bool             v_by;          /* there is a v_other */
} events[KEPT], marks[MARKED];

/*
 * The last uses of an object by two threads. Two objects may have the same entry, which
 * is then that of the one used last. Which ones do depends on the low bits of addresses
 * only, which are the same in each process.
 */
static struct use { struct sim_event u_last, u_before; } uses[USES];

static struct use *use_of(uintptr_t object)
{
	return &uses[(object >> 3) % USES];
}

/*
 * Finds the function and file of a place in the code. sim__enters is 0 meanwhile, so that
 * code_find() opens the real file, without a step.
 */
static void find_code(struct code *c, uintptr_t place)
{
	const unsigned char before = sim__enters;
	const int error = errno;

	sim__enters = 0;
	code_find(c, place - 1);
	sim__enters = before;
	errno = error;
}

static void put_place(struct text *t, uintptr_t place)
{
	struct code c;

	if (!place)
		return;
	find_code(&c, place);
	text_add(t, " in %s (%s+%p)", c.cd_name[0] ? c.cd_name : "a function",
		 c.cd_file[0] ? c.cd_file : "a file", (const void *)c.cd_offset);
}

void sim__name_place(char to[SIM_PLACE], uintptr_t place)
{
	struct text t = { .t_bytes = to, .t_room = SIM_PLACE - 1, .t_fd = -1 };

	put_place(&t, place);
	to[t.t_used] = '\0';
}

static void put_op(struct text *t, const struct sim_event *e, const char *does)
{
	text_add(t, "thread %u%s%s%s%s", e->e_number, e->e_host ? " of " : "",
		 e->e_host ? e->e_host->h_name : "", does,
		 e->e_op.o_name ? e->e_op.o_name : "begins");
	put_place(t, e->e_op.o_place);
}

/* Returns the next step of a thread as an event. */
static struct sim_event next_of(const struct sim_thread *t)
{
	return (struct sim_event){ .e_op = t->t_op, .e_host = t->t_host,
				   .e_number = t->t_number };
}

/*
 * If nothing wakes a thread, says so, and who could: the thread that has the lock, or
 * else another thread that has used the object.
 */
static void put_wait(struct text *t, const struct sim_thread *o)
{
	const int64_t limit = sim__limit(o);
	const struct sim_event *e;
	struct ustack_why why;

	if (uproc__state(o->t_thread, &why) != UPROC_WAITS
	    || (limit > sim__run.r_now && limit != USCHED_NEVER))
		return;
	text_put(t, ", and nothing wakes it");
	e = &use_of((uintptr_t)why.wy_object)->u_last;
	if (e->e_number == o->t_number)
		e = &use_of((uintptr_t)why.wy_object)->u_before;
	LIST_FOREACH(o, &sim__run.r_threads, t_of_run)
		if ((uintptr_t)o->t_thread == why.wy_holder) {
			text_add(t, "; thread %u has the lock", o->t_number);
			return;
		}
	if (why.wy_object && e->e_op.o_object == (uintptr_t)why.wy_object) {
		text_put(t, "; the last use by another one: ");
		put_op(t, e, ": ");
	}
}

static void put_threads(struct text *t)
{
	const struct sim_thread *o = LIST_FIRST(&sim__run.r_threads);

	text_put(t, "usched: threads, and what each does next, or waits in:\n");
	for (int n = 0; o && n < THREADS; o = LIST_NEXT(o, t_of_run), n++) {
		struct sim_event next = next_of(o);

		text_put(t, "usched:   ");
		put_op(t, &next, ": ");
		if (sim__run.r_outcome && sim__run.r_outcome->u_end == SIM_DEADLOCK)
			put_wait(t, o);
		text_put(t, "\n");
	}
	if (o)
		text_put(t, "usched:   and more\n");
}

static void put_event(struct text *t, const struct event *v)
{
	const struct sim_event *e = &v->v_event;

	text_add(t, "usched:   %zu  ", (size_t)e->e_step);
	if (e->e_number != SIM_NAMED)
		put_op(t, e, ": ");
	else if (e->e_chosen)
		text_add(t, "choice: %s = %zu", e->e_op.o_name, e->e_op.o_object);
	else
		text_add(t, "fault: %s%s%s", e->e_op.o_name, e->e_host ? " of " : "",
			 e->e_host ? e->e_host->h_name : "");
	if (v->v_by) {
		text_put(t, e->e_number == SIM_NAMED ? ", in " : ", in place of ");
		put_op(t, &v->v_other, ": ");
	}
	text_put(t, "\n");
}

/* Adds the last ones of `all' events of which the latest `kept' are known. */
static void put_events(struct text *t, const char *what, const struct event *of,
		       uint64_t all, uint64_t kept, uint64_t most)
{
	if (all > 0)
		text_add(t, "usched: %s%s:\n", all > most ? "the last " : "", what);
	for (uint64_t i = all < most ? 0 : all - most; i < all; i++)
		put_event(t, &of[i % kept]);
}

/* ---- In one sentence: what came between two uses of an object ---- */

static bool is_access(const struct sim_op *op)
{
	return strncmp(op->o_name, "reads", 5) == 0
		|| strncmp(op->o_name, "writes", 6) == 0;
}

/* Adds the variable that an operation uses, if all bytes of the object are its own. */
static void put_object(struct text *t, const struct sim_op *op)
{
	const uintptr_t at = is_access(op) ? op->o_object << 2 : op->o_object;
	struct code c, end;

	find_code(&c, at + 1);
	find_code(&end, at + 4);
	if (c.cd_name[0] && (!end.cd_name[0] || strcmp(c.cd_name, end.cd_name) == 0))
		text_add(t, "usched: on %s, ", c.cd_name);
	else
		text_put(t, "usched: on one object, ");
}

static void put_use(struct text *t, const char *before, const struct sim_event *e)
{
	text_put(t, before);
	put_op(t, e, is_access(&e->e_op) || strchr(e->e_op.o_name, ' ') ? " "
	       : " calls ");
}

/* Returns whether a thread has made a step between two events. */
static bool went_on(uint64_t after, uint64_t end, uint32_t thread)
{
	while (++after < end && events[after % KEPT].v_event.e_number != thread)
		;
	return after < end;
}

/*
 * Returns the last event before number *end in which a thread, or any other thread, used
 * the object of an operation, in a way that conflicts, and sets *end to that event's
 * number. The call of a lock counts if the caller has gone on after the call. Returns
 * NULL if there is no such event from number `first' on.
 */
static const struct sim_event *last_use(uint64_t first, uint64_t *end, uint32_t thread,
					bool others, const struct sim_op *op)
{
	for (const uint64_t all = *end; *end > first; ) {
		const struct sim_event *e = &events[--*end % KEPT].v_event;

		if ((e->e_number != thread) == others && e->e_number != SIM_NAMED
		    && e->e_op.o_object == op->o_object && sim__conflict(&e->e_op, op)
		    && (!(e->e_op.o_how & SIM_LOCKS)
			|| went_on(*end, all, e->e_number)))
			return e;
	}
	return NULL;
}

/*
 * If, since the choice, another thread has used an object before the usual thread did, in
 * a way that conflicts, says so and returns true; in the first pass, only if it was by an
 * access between two accesses. Small numbers are no addresses of objects.
 */
static bool put_between(struct text *t, const struct event *m, int pass)
{
	const uint64_t all = sim__run.r_events, first = all < KEPT ? 0 : all - KEPT;
	const struct sim_event *now, *between, *before;
	uint64_t chosen = first, end;
	bool ran = false;               /* the usual thread has run since */

	while (chosen < all && events[chosen % KEPT].v_event.e_step < m->v_event.e_step)
		chosen++;
	for (uint64_t i = chosen + 1; i <= all; i++) {
		end = i;
		now = i < all ? &events[i % KEPT].v_event : &m->v_other;
		if (now->e_number != m->v_other.e_number || (i == all && ran))
			continue;
		ran = true;
		if (now->e_op.o_object <= SIM_OBJECTS
		    || (pass == 0 && !is_access(&now->e_op)))
			continue;
		between = last_use(chosen, &end, now->e_number, true, &now->e_op);
		before = between ? last_use(first, &end, now->e_number, false,
					    &between->e_op) : NULL;
		if (!between || (pass == 0 && !before))
			continue;
		put_object(t, &now->e_op);
		put_use(t, "", between);
		if (before)
			put_use(t, " after ", before);
		put_use(t, before ? " and before " : " before ", now);
		text_put(t, "\n");
		return true;
	}
	return false;
}

static void put_sentence(struct text *t)
{
	const uint64_t all = sim__run.r_marked;

	for (int pass = 0; all <= FEW && pass < 2; pass++)
		for (uint64_t i = all; i-- > 0; )
			if (marks[i].v_by && marks[i].v_event.e_number != SIM_NAMED
			    && put_between(t, &marks[i], pass))
				return;
}

void sim__tell(const char *why)
{
	const struct sim_run *r = &sim__run;
	char line[512];
	struct text t = TEXT(line, STDERR_FILENO);

	if (r->r_outcome)
		r->r_outcome->u_steps = r->r_steps;
	text_add(&t, "usched: %s, in step %zu, after ", why, (size_t)r->r_steps);
	text_seconds(&t, (uint64_t)(r->r_now - SIM_BOOTED), 6);
	text_put(&t, " s\n");
	if (sim__clients_wait())
		text_put(&t, "usched: no program of --with has begun: "
			 "the server has not waited for connections\n");
	put_sentence(&t);
	put_events(&t, "choices and faults", marks, r->r_marked, MARKED, MARKED);
	put_threads(&t);
	put_events(&t, "steps", events, r->r_events, KEPT, LAST);
	text_flush(&t);
}

/* ---- The trace: --trace ---- */

/* Adds the name and the address of a host, which may be NULL. */
static void put_host(struct text *t, const struct sim_host *h)
{
	text_add(t, "%s %s", h ? h->h_name : "",
		 h && h->h_address ? h->h_address : "");
}

void sim__trace(const char *event, const struct sim_event *e,
		uint64_t message, const struct sim_host *to, int64_t when)
{
	const struct sim_run *r = &sim__run;
	struct text *t = r->r_trace;
	struct code c;

	text_add(t, "%zu,%zu,\"", (size_t)r->r_steps, (size_t)(r->r_now - SIM_BOOTED));
	put_host(t, e->e_host);
	text_add(t, "\",%u,%s,\"%s\",",
		 e->e_number == SIM_NAMED ? r->r_by : e->e_number, event,
		 e->e_op.o_name ? e->e_op.o_name : "begins");
	if (e->e_op.o_place) {
		find_code(&c, e->e_op.o_place);
		text_add(t, "%s %s+%p", c.cd_name, c.cd_file, (const void *)c.cd_offset);
	}
	text_add(t, ",%u,%zu,\"", e->e_chosen, (size_t)message);
	put_host(t, to);
	text_add(t, "\",%zu\n", (size_t)(when - SIM_BOOTED));
}

void sim__event(const struct sim_event *e)
{
	struct sim_run *r = &sim__run;
	const bool is_named = e->e_number == SIM_NAMED;
	const struct sim_thread *other = is_named ? r->r_running : r->r_instead;
	const struct event v = { *e, other ? next_of(other) : *e, other != NULL };

	if (e->e_chosen || is_named)
		marks[r->r_marked++ % MARKED] = v;
	if (e->e_chosen && is_named)            /* a chosen number is no event */
		return;
	events[r->r_events++ % KEPT] = v;
	if (!is_named) {
		struct use *u = use_of(e->e_op.o_object);

		if (u->u_last.e_number != e->e_number)
			u->u_before = u->u_last;
		u->u_last = *e;
	}
	if (r->r_trace)
		sim__trace(is_named ? "fault" : "step", e, 0, NULL, r->r_now);
}

void sim__note_fault(const char *what, const struct sim_host *host)
{
	sim__event(&(struct sim_event){ .e_op.o_name = what, .e_step = sim__run.r_steps,
					.e_host = host, .e_number = SIM_NAMED });
}

void sim__note_number(const char *what, uint64_t number)
{
	sim__event(&(struct sim_event){ .e_op = { .o_name = what, .o_object = number },
					.e_step = sim__run.r_steps, .e_number = SIM_NAMED,
					.e_chosen = true });
}

/* ---- Signals that end a process ---- */

static void tell_signal(int signal)
{
	const char *name = strsignal(signal);

	if (sim__run.r_outcome)
		sim__tell(name ? name : "a signal");
	raise(signal);                          /* ends the process: SA_RESETHAND */
}

void sim__tell_signals(void)
{
	static const int ends[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct sigaction act = { .sa_handler = tell_signal };

	act.sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		sigaction(ends[i], &act, NULL);
}

/* ---- Lines of the source, in the process that shows a report ---- */

/* Starts addr2line(1) for a file. Without addr2line there is no answer. */
static FILE *start_lines(const char *path)
{
	int ends[2];

	if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return NULL;
	if (_Fork() == 0) {
		dup2(ends[1], STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		close(STDERR_FILENO);
		execlp("addr2line", "addr2line", "-s", "-e", path, (char *)NULL);
		_exit(EXIT_FAILURE);
	}
	close(ends[1]);
	return fdopen(ends[0], "r+");
}

/*
 * If `text' begins with a place as put_place() writes it, writes the name and the line of
 * the source instead, and returns the end of the place. Otherwise returns `text'. In a
 * program at a fixed address, addr2line does not count from the start of the file.
 */
static const char *put_source(const char *text, FILE *to)
{
	static FILE *lines[BINARIES];           /* of the first files in memory */
	const struct link_map *m = _r_debug.r_map;
	char path[CODE_PATH] = "", answer[CODE_PATH], *end;
	uintptr_t at = (uintptr_t)getauxval(AT_PHDR) - sizeof(ElfW(Ehdr)) - m->l_addr;

	(void)!readlink("/proc/self/exe", path, sizeof path - 1);
	for (size_t i = 0; m && i < BINARIES; m = m->l_next, at = 0, i++) {
		const char *name = strrchr(i > 0 ? m->l_name : path, '/');
		size_t n = name ? strlen(++name) : 0;

		if (n == 0 || strncmp(text, name, n) != 0 || text[n] != '+')
			continue;
		at += strtoull(text + n + 1, &end, 16);
		if (!lines[i])
			lines[i] = start_lines(i > 0 ? m->l_name : path);
		if (*end != ')' || !lines[i]
		    || fprintf(lines[i], "%#" PRIxPTR "\n", at) < 0
		    || !fgets(answer, sizeof answer, lines[i]) || *answer == '?'
		    || strstr(answer, ":?") || strstr(answer, ":0"))
			break;
		answer[strcspn(answer, " \n")] = '\0';
		fputs(answer, to);
		return end;
	}
	return text;
}

void sim__show(FILE *from, FILE *to)
{
	char *line = NULL, *open;
	size_t room = 0;
	ssize_t n;

	unsetenv("LD_PRELOAD");
	signal(SIGPIPE, SIG_IGN);
	rewind(from);
	while ((n = getline(&line, &room, from)) >= 0) {
		const char *at = line;

		while (strncmp(line, "usched", 6) == 0 && (open = strchr(at, '('))) {
			fwrite(at, 1, (size_t)(open + 1 - at), to);
			at = put_source(open + 1, to);
		}
		fwrite(at, 1, (size_t)(line + n - at), to);
	}
	fflush(to);
}
