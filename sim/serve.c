/* SPDX-License-Identifier: MIT */
/*
 * serve.c: runs of a whole program under many seeds. The program is loaded once. Before
 * main() this process forks a process for each run, and waits for the end of the run:
 *
 *	first runs      threads run in order, and then by `mix'; these make the profile
 *	each seed       the strategy chooses threads by the seed and the profile
 *	shrinking       after a failure, runs repeat the choices, but leave out some
 *
 * A run writes its outcome and its choices into memory that both processes share, and its
 * output into files in memory. When the run has ended, its output is added to its hash.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../arch/arch.h"
#include "../posix/uposix_set.h"
#include "../src/core/outside.h"
#include "../src/base/text.h"
#include "world.h"

enum {
	JOBS  = 256,                    /* the most runs at a time */
	TICK  = 10,                     /* ms of CPU time between two calls of tick() */
	STALL = 5000 / TICK,            /* a thread spins after this many ticks without a
					   step, whatever its states were */
	STATES = 16,                    /* states of a thread that are compared */
	STATE = 6144,                   /* bytes of the stack in a state: what the kernel
					   saves for a signal, and some variables */
	HANG  = 30,                     /* a run fails after this many seconds without a
					   step */
	ODDS  = 100,                    /* odds of a fault that has none in --faults */
	BLOCK = 1 << 16,                /* bytes of output that are read at a time */
	SHRINK = 60,                    /* seconds that shrinking may take */
	LEARNS = 4,                     /* first runs, if accesses to memory are steps */
	TRIES = 32,                     /* vain tries to leave something out, for each
					   choice that is left */
	ROUNDS = 10,                    /* rounds of shrinking after the best one */
	TRACE = 1 << 30,                /* bytes of a trace, for ten million events; later
					   events are left out */
};

/* A run, one at a time. */
struct job {
	pid_t               j_process;          /* process of the run; 0: it has ended */
	uint64_t            j_seed;
	bool                j_again;            /* this is the second run of a seed, and
						   should have the hash j_hash */
	uint64_t            j_hash;
	int                 j_output[2];
	struct sim_outcome *j_outcome;
	const char         *j_wrong;            /* what is wrong with the run, or NULL */
};

static struct {
	uint64_t    c_seeds[2];         /* the first and the last */
	uint64_t    c_jobs;
	uint64_t    c_steps;
	uint64_t    c_time;             /* s */
	uint64_t    c_twice;
	uint64_t    c_leaks;            /* 1: a run fails if it leaves threads or open
					   descriptors */
	const struct sim_strategy *c_strategy;
	const char *c_shrink;           /* file to write; or NULL */
	const char *c_replay;           /* file to read; or NULL */
	const char *c_trace;            /* file to write; or NULL */
} conf = { .c_seeds = { 1, 1000 }, .c_jobs = 1 };

static struct text *trace;              /* header of the trace, or NULL; the trace follows
					   the header in memory */
static struct sim_profile *first;       /* of the first runs; NULL after them */
static struct job jobs[1 + JOBS];       /* jobs[0] is for first runs, and to shrink */
static struct sim_races races;          /* of all runs */
static uint64_t passed, redundant, steps, all_hashes;   /* sums over all runs */
static char **program;                  /* argv */
static jmp_buf run_begins;              /* a point in sim__serve(), where each run begins
					   with the same depth of the stack */
static unsigned at_begin;               /* number of open descriptors when the run
					   began */

bool sim__is_wanted(void)
{
	return outside_setting("USCHED_SIM") != NULL;
}

/*
 * Copies a text, or else a file, in another process, since this one may allocate nothing.
 * If there can be no other process, there are no more runs either.
 */
static void show(const char *text, int from, FILE *to)
{
	pid_t shows = _Fork();

	if (shows <= 0)
		sim__show(text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r")
			  : fdopen(from, "r"), to);
	if (shows == 0)
		_exit(0);
	while (waitpid(shows, NULL, 0) < 0 && errno == EINTR) { }
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char line[2 * SIM_MESSAGE] = "usched-run: ";
	const size_t start = strlen(line);
	va_list list;

	va_start(list, format);
	vsnprintf(line + start, sizeof line - start, format, list);
	va_end(list);
	text_copy(line, sizeof line - 1, line);
	show(strcat(line, "\n"), -1, stderr);
}

static void stop(const char *what)
{
	say("%s", what);
	_exit(2);
}

/* ---- Options ---- */

/* Returns the value of an option, or NULL. The name of its variable has capitals. */
static const char *value_of(const char *option)
{
	char variable[32] = "USCHED_SIM";
	const char *value;

	if (strcmp(option, "seeds") != 0)
		snprintf(variable, sizeof variable, "USCHED_SIM_%s", option);
	for (char *at = variable; *at; at++)
		*at = (char)toupper(*at);
	value = outside_setting(variable);
	return value && *value ? value : NULL;
}

static void refuse(const char *option, const char *give)
{
	say("--%s: '%s': give %s", option, value_of(option), give);
	_exit(2);
}

/*
 * Reads up to n numbers with '-' between them, none less than `least' or than the number
 * before. The last one also stands for numbers that are left out. Returns false if the
 * option is not given.
 */
static bool read_numbers(const char *option, uint64_t *to, int n, uint64_t least,
			 uint64_t most, const char *give)
{
	const char *at = value_of(option);
	char *end;

	for (int i = 0; at && i < n; i++) {
		if (i == 0 || *at == '-') {
			at += i > 0;
			errno = isdigit((unsigned char)*at) ? 0 : EINVAL;
			to[i] = strtoull(at, &end, 10);
			if (errno || to[i] < least || to[i] > most)
				refuse(option, give);
			least = to[i];
			at = end;
		}
		to[i] = least;
	}
	if (at && *at)
		refuse(option, give);
	return at != NULL;
}

static void read_strategy(void)
{
	const char *name = value_of("strategy");

	conf.c_strategy = !name || strcmp(name, "mix") == 0 ? &sim__mix
		: strcmp(name, "depth") == 0 ? &sim__depth
		: strcmp(name, "all") == 0 ? &sim__all : NULL;
	if (!conf.c_strategy)
		refuse("strategy", "mix, depth or all");
}

/* The report of a run has the same names. */
static void read_faults(void)
{
	struct sim_faults *f = &sim__faults;
	const struct { const char *name; unsigned *odds; } all[] = {
		{ "crash", &f->f_crash }, { "full", &f->f_full },
		{ "short", &f->f_short }, { "sync-fails", &f->f_sync_fails },
		{ "sync-lies", &f->f_sync_lies }, { "open", &f->f_open },
		{ "no-memory", &f->f_no_memory }, { "clock", &f->f_clock },
		{ "loss", &f->f_loss }, { "duplicate", &f->f_duplicate },
		{ "no-buffer", &f->f_no_buffer }, { "reset", &f->f_reset },
		{ "no-answer", &f->f_no_answer }, { "slow", &f->f_slow },
		{ "partition", &f->f_partition }, { "", NULL },
	}, *one;

	for (const char *at = value_of("faults"); at && *at; at += *at == ',') {
		char name[16] = "", digits[10] = "";
		int size = 0;

		sscanf(at, "%15[a-z-]%n:%9[0-9]%n", name, &size, digits, &size);
		for (one = all; one->odds && strcmp(one->name, name); one++)
			;
		at += size;
		if (!one->odds || (*at && *at != ','))
			refuse("faults", "NAME or NAME:ODDS, and more after commas; "
			       "usched-run(1) has the names");
		*one->odds = *digits ? (unsigned)atoi(digits) : ODDS;
	}
}

/* In sim_faults() 0 stands for the default, so 0 us become 1 ns. */
static int64_t latency(uint64_t us)
{
	return us ? (int64_t)us * MICROSECOND : 1;
}

/* ---- In the process of a run ---- */

/* Returns the number of the program's open descriptors. */
static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < sim__high(); fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Called at the end of main(): fails the run if live threads or descriptors remain. */
static void look_for_leaks(void)
{
	const struct sim_run *r = &sim__run;
	const unsigned left[] = { r->r_live - r->r_dead - 1, descriptors() - at_begin };

	for (int i = 0; i < 2; i++)
		if (left[i] > 0)
			sim_fail("%u %s%s left at the end", left[i],
				 i == 0 ? "thread" : "descriptor",
				 left[i] == 1 ? " is" : "s are");
}

/*
 * Called when the process of a run exits. Writes the outcome, unless that was done
 * before.
 */
static void end_process(int status, void *unused)
{
	struct sim_outcome *u = sim__run.r_outcome;

	(void)unused;
	if (!u || u->u_end != SIM_GOES_ON)
		return;
	if (status)
		sim__tell("the exit status is not 0");
	else if (conf.c_leaks)
		look_for_leaks();
	sim__report(SIM_PASSED, "");
}

void uposix__exit(int status)
{
	sim__leave(status);
	end_process(status, NULL);
	_exit(status);
}

extern __typeof__(_Exit) uposix__Exit __attribute__((alias("uposix__exit")));

/*
 * Handles the signal of a timer. Fails the run if there was no step since the last
 * signal: a call that is not simulated waits.
 */
static void look(int signal)
{
	static uint64_t seen = UINT64_MAX;

	(void)signal;
	if (sim__run.r_steps == seen)
		sim__end(SIM_ENDLESS, "it waits in a call of the system that is no step");
	seen = sim__run.r_steps;
}

/*
 * Returns a hash of the running thread's registers, which the kernel has put on the stack
 * for the signal handler, and of the variables that follow there.
 */
static uint64_t state_of(const void *context)
{
	const struct ustack *u = &sim__self()->t_thread->th_stack;
	const uint64_t *at = context, *end = (const void *)u->u_stack->k_bottom;
	uint64_t hash = 0;

	for (size_t i = 0; i < STATE / sizeof *at && at + i < end; i++)
		hash = sim__hash(hash, at[i]);
	return hash;
}

/*
 * Handles the signal of the timer of CPU time. If a thread makes no step, looks whether
 * it spins: it does if its state is one that it had before. A thread that computes has
 * other states, and is not interrupted, since its run has to be the same on a slow
 * processor. So that no lock of libc is held, the thread is interrupted in code of the
 * program only.
 */
static void tick(int signal, siginfo_t *info, void *context)
{
	static uint64_t seen = UINT64_MAX, states[STATES];
	static unsigned ticks;
	const uintptr_t place = usched__interrupted(context);
	const int before = errno;
	uint64_t now;

	(void)signal, (void)info;
	ticks = sim__run.r_steps == seen ? ticks + 1 : 0;
	seen = sim__run.r_steps;
	now = sim__self() && uposix__may_stop_at(place) ? state_of(context) : 0;
	states[ticks % STATES] = now;
	if (ticks >= STALL && !now)
		sim__end(SIM_ENDLESS, "it uses the processor and makes no step");
	for (unsigned i = 1; now && i < ticks && i < STATES; i++)
		if (states[(ticks - i) % STATES] == now || ticks >= STALL) {
			sim__spin(place + 1, ticks >= STALL);
			break;
		}
	errno = before;
}

/* A file as the standard input is read from the beginning; all else is empty. */
static void begin_input(void)
{
	struct stat s;
	bool is_file = fstat(STDIN_FILENO, &s) == 0 && S_ISREG(s.st_mode);
	int fd = open(is_file ? "/proc/self/fd/0" : "/dev/null", O_RDONLY);

	if (fd > STDIN_FILENO) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
}

/*
 * Begins a run in the process of the run. Jumps back into sim__serve(), which then
 * returns.
 */
static void begin_process(const struct job *j, const struct sim_strategy *y)
{
	const struct itimerval often = { { 0, TICK * 1000 }, { 0, TICK * 1000 } };
	const struct itimerspec hang = { { HANG, 0 }, { HANG, 0 } };
	struct sigevent sends = { .sigev_signo = SIGSTKFLT };
	int timer;

	begin_input();
	dup2(j->j_output[0], STDOUT_FILENO);
	dup2(j->j_output[1], STDERR_FILENO);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &sends, &timer) == 0)
		syscall(SYS_timer_settime, timer, 0, &hang, NULL);
	at_begin = conf.c_leaks ? descriptors() : 0;
	sim__run.r_outcome = j->j_outcome;
	sim__run.r_learns = first != NULL;
	if (first)
		sim__run.r_profile = first;
	if (first || sim__profile.p_calls)
		sim__catch_calls();
	sim__run.r_trace = trace;
	if (trace)
		trace->t_used = 0;
	sim__begin(&(struct sim_conf){ .c_seed = y == &sim__depth ? j->j_outcome->u_seed
				       : j->j_seed, .c_steps = conf.c_steps,
				       .c_hang_ns = (int64_t)conf.c_time * SECOND }, y);
	longjmp(run_begins, 1);
}

/* ---- Single runs ---- */

void *sim__share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		stop("no memory for runs");
	return memory;
}

static void make_job(struct job *j)
{
	j->j_outcome = sim__share(sizeof *j->j_outcome);
	for (int i = 0; i < 2; i++) {
		int low = memfd_create("usched output", MFD_CLOEXEC);

		j->j_output[i] = fcntl(low, F_DUPFD_CLOEXEC, sim__high());
		if (j->j_output[i] < 0)
			j->j_output[i] = dup(low);
		close(low);
		if (j->j_output[i] < 0
		    || fcntl(j->j_output[i], F_SETFL, O_APPEND) < 0)
			stop("no file for the output of runs");
	}
}

static void begin_run(struct job *j, const struct sim_strategy *y)
{
	j->j_outcome->u_end = SIM_GOES_ON;
	j->j_outcome->u_noted = 0;
	j->j_outcome->u_races.s_count = 0;
	if (ftruncate(j->j_output[0], 0) || ftruncate(j->j_output[1], 0))
		stop("the output of a run cannot be cut off");
	j->j_process = _Fork();
	if (j->j_process < 0)
		stop("no process for a run");
	if (j->j_process == 0)
		begin_process(j, y);
}

/*
 * Returns what is wrong with a run, as a text for the report, or NULL if the run passed.
 */
static const char *fault(struct sim_outcome *u, int status)
{
	if (u->u_end > SIM_REDUNDANT)
		return u->u_message;
	if (WIFSIGNALED(status))
		snprintf(u->u_message, SIM_MESSAGE, "signal %d, %s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		snprintf(u->u_message, SIM_MESSAGE, "exit status %d",
			 WEXITSTATUS(status));
	else if (u->u_end == SIM_GOES_ON)
		snprintf(u->u_message, SIM_MESSAGE, "it has left by a system call");
	else
		return NULL;
	return u->u_message;
}

/* Waits until any run ends, and returns its job. */
static struct job *end_run(void)
{
	struct job *j = jobs;
	int status = 0;
	pid_t process;

	do
		process = wait(&status);
	while (process < 0 && errno == EINTR);
	while (j <= jobs + conf.c_jobs && j->j_process != process)
		j++;
	if (process < 0 || j > jobs + conf.c_jobs)
		stop("a run is lost");
	j->j_process = 0;
	j->j_wrong = fault(j->j_outcome, status);
	for (unsigned i = 0; i < j->j_outcome->u_races.s_count; i++)
		sim__add_race(&races, j->j_outcome->u_races.s_race[i]);
	return j;
}

/* Returns the hash of a run with its output. */
static uint64_t hash_of(const struct job *j)
{
	static unsigned char block[BLOCK];
	uint64_t hash = j->j_outcome->u_hash;
	ssize_t n;

	for (int i = 0; i < 2; i++)
		for (off_t at = 0; (n = pread(j->j_output[i], block, BLOCK, at)) > 0;
		     at += n)
			for (ssize_t k = 0; k < n; k++)
				hash = sim__hash(hash, block[k]);
	return hash;
}

static void show_output(const struct job *j)
{
	show(NULL, j->j_output[0], stdout);
	show(NULL, j->j_output[1], stderr);
}

/* ---- The trace, and choices: replay and shrinking ---- */

static const char *wrong;               /* in the last run, for the trace */

/* Writes the file of an option. */
static void write_file(const char *option, void (*write)(FILE *f))
{
	const char *path = value_of(option);
	int fd = outside_file(path, 0);
	bool is_empty = fd >= 0 && (ftruncate(fd, 0) == 0 || errno == EINVAL);
	FILE *f = is_empty ? fdopen(fd, "w") : NULL;

	if (f)
		write(f);
	if (f && fclose(f) == 0)
		return;
	say("--%s: '%s' cannot be written: %s", option, path, strerror(errno));
	_exit(2);
}

static void write_trace(FILE *f)
{
	fputs("step,ns,host,thread,event,what,place,choice,message,to,arrival\n", f);
	fwrite(trace->t_bytes, 1, trace->t_used, f);
	fputs(",,,,end,\"", f);
	for (const char *at = wrong; at && *at; at++)
		fputc(*at == '"' ? '\'' : *at, f);
	fputs("\",,,,,\n", f);
}

/* Ends this process after the last run. */
static void finish(const struct job *j)
{
	wrong = j->j_wrong;
	if (trace)
		write_file("trace", write_trace);
	_exit(wrong ? EXIT_FAILURE : 0);
}

/* What a run that fails needs at most, and what the next run tries. */
static struct list {
	size_t            l_count;
	struct sim_choice l_choice[SIM_CHOICES];
} left, fewer;

/* The file has the seed, which decides the program's random numbers, and then choices. */
static void write_choices(FILE *f)
{
	fprintf(f, "usched-sim 1 %" PRIu64 "\n", jobs[0].j_seed);
	for (size_t i = 0; i < left.l_count; i++)
		fprintf(f, "%" PRIu32 " %" PRIu32 " %" PRIu64 "\n", left.l_choice[i].c_by,
			left.l_choice[i].c_when, left.l_choice[i].c_what);
}

static void read_choices(void)
{
	FILE *f = fopen(conf.c_replay, "re");
	struct sim_choice *c = left.l_choice;
	int n = 3;

	if (!f || fscanf(f, "usched-sim 1 %" SCNu64, &conf.c_seeds[0]) != 1)
		n = 0;
	while (n == 3 && c < left.l_choice + SIM_CHOICES) {
		n = fscanf(f, "%" SCNu32 "%" SCNu32 "%" SCNu64, &c->c_by, &c->c_when,
			   &c->c_what);
		c += n == 3;
	}
	if (n != 3 && n != EOF)
		refuse("replay", "a file that --shrink has written");
	fclose(f);
	conf.c_seeds[1] = conf.c_seeds[0];
	conf.c_strategy = &sim__replay;
	sim__replay_these(left.l_choice, (size_t)(c - left.l_choice));
}

static void take_choices(struct list *l, const struct sim_outcome *u)
{
	l->l_count = u->u_noted;
	memcpy(l->l_choice, u->u_choices, l->l_count * sizeof l->l_choice[0]);
}

static bool are_alike(const char *a, const char *b, const char *without)
{
	do {
		a += strspn(a, without);
		b += strspn(b, without);
		if (*a != *b++)
			return false;
	} while (*a++);
	return true;
}

/*
 * Makes a run with choices. Returns whether the run fails like the run with the outcome
 * `u'. Then the choices of this run are left, since some of the given choices may not
 * have come up any more. If the program says what is wrong, the numbers in its message do
 * not matter.
 */
static bool fails_again(const struct list *l, const struct sim_outcome *u)
{
	const struct job *j;

	sim__replay_these(l->l_choice, l->l_count);
	begin_run(jobs, &sim__replay);
	j = end_run();
	if (!j->j_wrong || !are_alike(j->j_wrong, u->u_message,
				      u->u_end == SIM_FAILED ? "0123456789" : ""))
		return false;
	take_choices(&left, j->j_outcome);
	return true;
}

/*
 * Leaves out choices as long as the run fails: a piece of the list, any choices, or those
 * of some threads and names. So many are half of the choices at first, and fewer as long
 * as that is in vain, down to one; then again half of them. Another choice may come up to
 * two calls earlier, since a thread makes fewer calls if, say, no write is cut short.
 * (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002, leave out
 * pieces in turn.)
 */
static void leave_out(const struct sim_outcome *u, time_t until)
{
	size_t size = 1;

	for (size_t vain = 0; vain < TRIES * left.l_count && time(NULL) < until; vain++) {
		const size_t n = left.l_count, at = sim__below(n);
		const uint64_t way = sim__below(3), salt = sim__random();

		if (vain > 0 || size > n)
			size = size > 1 ? size - size / 4 - 1 : n / 2 + 1;
		fewer.l_count = 0;
		for (size_t i = 0; i < n; i++) {
			const struct sim_choice *c = &left.l_choice[i];
			const uint64_t rank = way == 0 ? i - at : way == 1 ? sim__below(n)
				: sim__hash(c->c_by, salt) % n;

			if (rank >= size)
				fewer.l_choice[fewer.l_count++] = *c;
		}
		if (vain > TRIES / 2 * n && fewer.l_count > 0)
			fewer.l_choice[sim__below(fewer.l_count)].c_when -=
				(uint32_t)sim__below(3);
		if (fewer.l_count < n && fails_again(&fewer, u))
			vain = 0;
	}
}

/*
 * Shrinks a failure several times, until that makes it no better, and makes a run with
 * the choices that are left. Returns false if there is no such run.
 */
static bool shrink(const struct sim_outcome *u)
{
	static struct list best;
	const time_t until = time(NULL) + SHRINK;

	if (u->u_noted > SIM_CHOICES) {
		say("it made too many choices to shrink them: %" PRIu64, u->u_noted);
		return false;
	}
	take_choices(&best, u);
	if (!fails_again(&best, u)) {
		say("its choices alone do not make it fail");
		return false;
	}
	for (int round = 0, last = ROUNDS; round < last && best.l_count > 1; round++) {
		take_choices(&left, u);
		leave_out(u, until);
		if (left.l_count >= best.l_count)
			continue;
		best = left;
		last = round + ROUNDS;
	}
	return fails_again(&best, u);
}

static void read_options(void)
{
	uint64_t us[3];

	read_numbers("seeds", conf.c_seeds, 2, 0, UINT64_MAX - 1,
		     "A or A-B, and A is the lesser");
	read_numbers("jobs", &conf.c_jobs, 1, 1, JOBS, "a number from 1 to 256");
	read_numbers("steps", &conf.c_steps, 1, 0, UINT64_MAX, "a number");
	read_numbers("time", &conf.c_time, 1, 0, UINT32_MAX, "a number up to 4294967295");
	read_numbers("twice", &conf.c_twice, 1, 0, 1, "0 or 1");
	read_numbers("leaks", &conf.c_leaks, 1, 0, 1, "0 or 1");
	if (read_numbers("latency", us, 3, 0, UINT32_MAX,
			 "A, A-B or A-B-C, and none is less than the one before")) {
		sim__faults.f_latency_ns = latency(us[0]);
		sim__faults.f_latency_most_ns = latency(us[1]);
		sim__faults.f_latency_rare_ns = latency(us[2]);
	}
	read_faults();
	if (value_of("hosts") && !sim__list_hosts(value_of("hosts")))
		refuse("hosts", "NAME=ADDRESS, and more after commas");
	conf.c_shrink = value_of("shrink");
	conf.c_replay = value_of("replay");
	conf.c_trace = value_of("trace");
	read_strategy();
	if (conf.c_strategy == &sim__all) {     /* the runs end when all orders have been
						   tried */
		conf.c_seeds[0] = 0;
		conf.c_seeds[1] = UINT64_MAX - 1;
	}
	if (conf.c_replay)
		read_choices();
	if (conf.c_strategy == &sim__all || conf.c_strategy == &sim__depth)
		conf.c_jobs = 1;                /* a run depends on the earlier ones */
	if (conf.c_trace && conf.c_seeds[0] != conf.c_seeds[1])
		refuse("trace", "a file, and one run: --seeds A or --replay FILE");
}

/* ---- Results ---- */

/* Returns the ending of a noun that follows the number n. */
static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Adds a word to a command, in quotes if a shell has to have them. */
static void put_word(const char *word)
{
	const char *quote = !strpbrk(word, " \t\n'\"\\$&();<>|*?[]{}`~#!") && *word ? ""
		: strchr(word, '\'') ? "\"" : "'";

	fprintf(stderr, " %s%s%s", quote, word, quote);
}

/* Says a command that repeats a run: the options, then the program. */
static void say_command(const char *why, const char *option, const char *value)
{
	static const char *const more[] = {
		"strategy", "steps", "time", "faults", "latency", "hosts", "with",
	};

	fprintf(stderr, "usched-run: %s: usched-run --sim", why);
	if (*option) {
		fprintf(stderr, " --%s", option);
		put_word(value);
	}
	fputs(conf.c_leaks ? " --leaks" : "", stderr);
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
		const char *given = value_of(more[i]);
		char *lines = given ? strdup(given) : NULL, *line;

		while ((line = strsep(&lines, "\n"))) {        /* --with has several */
			fprintf(stderr, " --%s", more[i]);
			put_word(line);
		}
	}
	for (char **word = program; *word; word++)
		put_word(*word);
	fputc('\n', stderr);
}

static void tell_failure(const struct job *j)
{
	static const char can_draw[] = "command -v uthreads >/dev/null && python3 -c "
		"'from importlib.util import *; exit(not find_spec(\"matplotlib\"))'";
	const struct sim_strategy *y = conf.c_strategy;
	const struct sim_outcome *u = j->j_outcome;
	uint64_t before = y == &sim__all ? passed : j->j_seed - conf.c_seeds[0];
	char text[64];

	say("seed %" PRIu64 ": %s, after %" PRIu64 " step%s and %" PRIu64
	    " run%s that passed", j->j_seed, u->u_message, u->u_steps,
	    plural(u->u_steps), before, plural(before));
	jobs[0].j_seed = y == &sim__depth ? u->u_seed : j->j_seed;
	if (conf.c_shrink && shrink(u)) {
		show_output(&jobs[0]);
		write_file("shrink", write_choices);
		snprintf(text, sizeof text, "%zu choice%s of %" PRIu64 " make%s it fail",
			 left.l_count, plural(left.l_count), u->u_noted,
			 left.l_count == 1 ? "s" : "");
		say_command(text, "replay", conf.c_shrink);
	} else {
		show_output(j);
	}
	snprintf(text, sizeof text, y == &sim__depth ? "%" PRIu64 "-%" PRIu64
		 : "%" PRIu64, y == &sim__depth ? conf.c_seeds[0] : j->j_seed, j->j_seed);
	if (!conf.c_trace && y != &sim__all && y != &sim__depth && system(can_draw) == 0)
		say("a picture: add --trace run.csv; uthreads draw run.csv run.svg");
	if (conf.c_replay)
		say_command("again", "replay", conf.c_replay);
	else
		say_command("again", y == &sim__all ? "" : "seeds", text);
	finish(j);
}

static void tell_races(void)
{
	char place[SIM_PLACE], other[SIM_PLACE];

	for (unsigned i = 0; i < races.s_count; i++) {
		const struct sim_race *r = &races.s_race[i];

		sim__name_place(place, r->a_use / 2);
		sim__name_place(other, r->a_other / 2);
		say("a race, with the same result: one thread %s%s, another %s%s",
		    r->a_use % 2 ? "writes" : "reads", place,
		    r->a_other % 2 ? "writes" : "reads", other);
	}
}

/* ---- Seeds ---- */

/*
 * Called when a run has passed. With --twice, if this was the first run of a seed, begins
 * the second run. Otherwise adds the run to the sums.
 */
static void settle(struct job *j)
{
	uint64_t hash = hash_of(j);

	if (conf.c_seeds[0] == conf.c_seeds[1] && !j->j_again)
		show_output(j);
	if (conf.c_twice && !j->j_again) {
		j->j_again = true;
		j->j_hash = hash;
		begin_run(j, conf.c_strategy);
		return;
	}
	if (j->j_again && hash != j->j_hash) {
		j->j_wrong = j->j_outcome->u_message;
		snprintf(j->j_outcome->u_message, SIM_MESSAGE, "the second run was "
			 "another one: %016" PRIx64 ", not %016" PRIx64, hash, j->j_hash);
	}
	sim__remember(j->j_outcome);
	*(j->j_outcome->u_end == SIM_REDUNDANT ? &redundant : &passed) += 1;
	steps += j->j_outcome->u_steps;
	all_hashes ^= sim__hash(hash, j->j_seed);     /* runs may end in any order */
	if (conf.c_strategy == &sim__all && !sim__next_order())
		conf.c_seeds[1] = 0;
}

/* Makes the first runs, and the profile. Only the run in order has to pass. */
static void learn(void)
{
	struct job *const j = &jobs[0];

	for (int i = 0; i == 0 || (i < LEARNS && sim__traced && !j->j_wrong); i++) {
		j->j_seed = (uint64_t)i;
		begin_run(j, i ? &sim__mix : &sim__in_order);
		end_run();
		if (i == 0 && j->j_wrong) {
			say("%s: with its threads in order, before the first seed: %s",
			    program[0], j->j_wrong);
			show_output(j);
			finish(j);
		}
		sim__learned(first);
	}
	first = NULL;
}

/*
 * Runs all seeds. After a failure no more runs begin. Runs that have begun go on to their
 * end: if one of them fails under a lower seed, that failure is reported instead.
 */
static void run_seeds(void)
{
	uint64_t seed = conf.c_seeds[0];
	struct job *failed = NULL, *j = jobs;
	unsigned running = 0;

	for (;;) {
		while (!failed && running < conf.c_jobs && seed <= conf.c_seeds[1]) {
			for (j = jobs + 1; j->j_process; )
				j++;
			j->j_seed = conf.c_strategy == &sim__all ? 0 : seed;
			j->j_again = false;
			if (conf.c_strategy == &sim__depth)
				j->j_outcome->u_seed = sim__recall(seed);
			begin_run(j, conf.c_strategy);
			seed++;
			running++;
		}
		if (running == 0)
			break;
		j = end_run();
		if (!j->j_wrong)
			settle(j);
		if (j->j_wrong && (!failed || j->j_seed < failed->j_seed))
			failed = j;
		running -= !j->j_process;
	}
	if (failed)
		tell_failure(failed);
	tell_races();
	if (conf.c_strategy == &sim__all)
		say("all orders passed: %" PRIu64 ", and %" PRIu64
		    " redundant beginning%s", passed, redundant, plural(redundant));
	else
		say("%" PRIu64 " run%s passed, %" PRIu64 " step%s, hash %016" PRIx64,
		    passed, plural(passed), steps, plural(steps), all_hashes);
	finish(j);
}

/*
 * Creates all that runs inherit from this process. The profile knows objects by address.
 * So nothing is mapped or allocated later, and objects are at the same addresses in all
 * runs.
 */
static void prepare(void)
{
	const struct sigaction on_tick = {
		.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART,
	};

	for (unsigned i = 0; i <= conf.c_jobs; i++)
		make_job(&jobs[i]);
	first = sim__share(sizeof *first);
	if (conf.c_trace) {
		trace = sim__share(TRACE);
		*trace = (struct text){ .t_bytes = (char *)(trace + 1), .t_fd = -1,
					.t_room = TRACE - sizeof *trace };
	}
	if (conf.c_strategy == &sim__all)
		sim__begin_orders();
	if (conf.c_strategy == &sim__depth)
		sim__begin_memory();
	sim__tell_signals();
	sigaction(SIGVTALRM, &on_tick, NULL);
	signal(SIGSTKFLT, look);       /* which nobody else uses */
	on_exit(end_process, NULL);
	fflush(NULL);
}

void sim__serve(char **argv)
{
	if (setjmp(run_begins))
		return;
	program = argv;
	read_options();
	unsetenv("USCHED_SIM");         /* programs that this program starts do not
					   simulate */
	prepare();
	learn();
	run_seeds();
}
