/* SPDX-License-Identifier: MIT */
/*
 * serve.c: runs of a whole program under many seeds. The program is loaded once. Before
 * main() this process forks a process for each run, and waits for the end of the run:
 *
 *	first run       threads run in order, and the run makes the profile
 *	each seed       the strategy chooses threads by the seed and the profile
 *	shrinking       after a failure, runs repeat the choices, but leave out some
 *
 * A run writes its outcome and its choices into memory that both processes share, and its
 * output into files in memory. When the run has ended, its output is added to its hash.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* memfd_create(), _Fork(), on_exit() */
#endif
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
	TRIES = 32,                     /* draws of what to leave out, for each choice */
	ROUNDS = 10,                    /* rounds of shrinking after the best one */
	KINDS = 64,                     /* kinds of choices that are left out at once */
	TRACE = 1 << 30,                /* bytes of a trace, for ten million events; later
					   events are left out */
};

/* A run in progress. */
struct job {
	pid_t               j_process;          /* process of the run; 0: the job is
						   free */
	uint64_t            j_seed;
	bool                j_again;            /* this is the second run of a seed, and
						   should have the hash j_hash */
	uint64_t            j_hash;
	int                 j_output[2];
	struct sim_outcome *j_outcome;
};

static struct {
	uint64_t    c_first;
	uint64_t    c_last;
	const struct sim_strategy *c_strategy;
	uint64_t    c_jobs;
	uint64_t    c_steps;
	uint64_t    c_time;             /* s */
	uint64_t    c_twice;
	uint64_t    c_leaks;            /* 1: a run fails if it leaves threads or open
					   descriptors */
	const char *c_shrink;           /* file to write; or NULL */
	const char *c_replay;           /* file to read; or NULL */
	const char *c_trace;            /* file to write; or NULL */
	char        c_again[512];       /* options that a repetition of a run needs, each
					   after a blank */
} conf;

static struct text *trace;              /* header of the trace, or NULL; the trace follows
					   the header in memory */
static struct sim_profile *first;       /* profile of the first run */
static struct job jobs[JOBS], spare;    /* spare: for messages, and for shrinking */
static struct sim_races races;          /* of all runs */
static uint64_t passed, redundant, steps, all_hashes;   /* sums over all runs */
static char **program;                  /* argv */
static jmp_buf run_begins;              /* a point in sim__serve(), where each run begins
					   with the same depth of the stack */
static bool reads_file;                 /* standard input is a file */
static unsigned at_begin;               /* number of open descriptors when the run
					   began */

bool sim__is_wanted(void)
{
	return outside_setting("USCHED_SIM") != NULL;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static uint64_t take_output(int from, FILE *to, uint64_t hash);

static void say(const char *format, ...)
{
	char line[2 * SIM_MESSAGE];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	text_copy(line, sizeof line, line);
	fflush(stdout);
	if (spare.j_outcome) {                  /* the line may have places in the code */
		dprintf(spare.j_output[1], "usched-run: %s\n", line);
		take_output(spare.j_output[1], stderr, 0);
	} else {
		fprintf(stderr, "usched-run: %s\n", line);
	}
}

static void stop(const char *what)
{
	say("%s", what);
	_exit(2);
}

/* Opens a file that an option names, for writing. Returns NULL on error. */
static FILE *file_of(const char *path)
{
	int fd = outside_file(path, 0);

	return fd < 0 || (ftruncate(fd, 0) && errno != EINVAL) ? NULL : fdopen(fd, "w");
}

/* ---- Settings ---- */

/*
 * Returns the number at the start of *text, and sets *text to the end of the number.
 * Exits if there is no number.
 */
static uint64_t number(const char *option, const char **text)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(*text, &end, 10);
	if (errno || **text < '0' || **text > '9') {
		say("--%s: '%s' is no number", option, *text);
		_exit(2);
	}
	*text = end;
	return n;
}

static uint64_t setting(const char *option, const char *name, uint64_t otherwise)
{
	const char *text = outside_setting(name);

	return text && *text ? number(option, &text) : otherwise;
}

/* Returns the value of an option, or NULL. Adds the option to conf.c_again. */
static const char *option(const char *name, const char *variable)
{
	const char *value = outside_setting(variable);
	size_t used = strlen(conf.c_again);

	if (!value || !*value)
		return NULL;
	snprintf(conf.c_again + used, sizeof conf.c_again - used, " --%s %s", name,
		 value);
	return value;
}

/* Reads a list of faults, each with its odds. The report has the same names. */
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
	const char *at = option("faults", "USCHED_SIM_FAULTS");

	for (; at && *at; at += *at == ',') {
		unsigned odds = ODDS;
		char name[16] = "";
		int size = 0;

		sscanf(at, "%15[a-z-]%n:%u%n", name, &size, &odds, &size);
		for (one = all; one->odds && strcmp(one->name, name); one++)
			;
		if (!one->odds || (at[size] && at[size] != ',')) {
			say("--faults: '%s': NAME or NAME:ODDS, and more after commas; "
			    "usched-run(1) has the names", at);
			_exit(2);
		}
		*one->odds = odds;
		at += size;
	}
}

/*
 * Reads the shortest latency, the longest of 99 packets in 100, and the longest, in us.
 * In sim_faults() 0 stands for the default, so 0 us become 1 ns.
 */
static void read_latency(void)
{
	const char *at = option("latency", "USCHED_SIM_LATENCY");
	unsigned us[3];
	int size = 0, n;

	if (!at)
		return;
	n = sscanf(at, "%u%n-%u%n-%u%n", &us[0], &size, &us[1], &size, &us[2], &size);
	for (n = n > 0 ? n : 0; n < 3; n++)
		us[n] = n > 0 ? us[n - 1] : 0;
	if (size == 0 || at[size] || us[0] > us[1] || us[1] > us[2])
		stop("--latency: A, A-B or A-B-C, in us, and none is less than the one "
		     "before");
	sim__faults.f_latency_ns = us[0] ? us[0] * MICROSECOND : 1;
	sim__faults.f_latency_most_ns = us[1] ? us[1] * MICROSECOND : 1;
	sim__faults.f_latency_rare_ns = us[2] ? us[2] * MICROSECOND : 1;
}

static void read_strategy(void)
{
	const char *name = option("strategy", "USCHED_SIM_STRATEGY");

	conf.c_strategy = !name || strcmp(name, "mix") == 0 ? &sim__mix
		: strcmp(name, "depth") == 0 ? &sim__depth
		: strcmp(name, "all") == 0 ? &sim__all : NULL;
	if (!conf.c_strategy)
		stop("--strategy: mix, depth or all");
}

static void read_settings(void)
{
	const char *seeds = outside_setting("USCHED_SIM"), *hosts;

	conf.c_first = conf.c_last = number("seeds", &seeds);
	if (*seeds == '-') {
		seeds++;
		conf.c_last = number("seeds", &seeds);
	}
	if (*seeds || conf.c_last < conf.c_first || conf.c_last == UINT64_MAX)
		stop("--seeds: A or A-B, and A is the lesser");
	conf.c_jobs = setting("jobs", "USCHED_SIM_JOBS", 1);
	if (conf.c_jobs == 0 || conf.c_jobs > JOBS)
		stop("--jobs: 1 to 256");
	conf.c_steps = setting("steps", "USCHED_SIM_STEPS", 0);
	option("steps", "USCHED_SIM_STEPS");
	conf.c_time = setting("time", "USCHED_SIM_TIME", 0);
	option("time", "USCHED_SIM_TIME");
	if (conf.c_time > UINT32_MAX)
		stop("--time: seconds, up to 4294967295");
	read_faults();
	read_latency();
	hosts = option("hosts", "USCHED_SIM_HOSTS");
	if (hosts && !sim__list_hosts(hosts))
		stop("--hosts: NAME=ADDRESS, and more after commas");
	conf.c_twice = setting("twice", "USCHED_SIM_TWICE", 0);
	conf.c_leaks = setting("leaks", "USCHED_SIM_LEAKS", 0);
	conf.c_shrink = outside_setting("USCHED_SIM_SHRINK");
	conf.c_replay = outside_setting("USCHED_SIM_REPLAY");
	conf.c_trace = outside_setting("USCHED_SIM_TRACE");
	read_strategy();
	if (conf.c_strategy == &sim__all) {     /* the runs end when all orders have been
						   tried */
		conf.c_first = 0;
		conf.c_last = UINT64_MAX - 1;
	}
	if (conf.c_strategy == &sim__all || conf.c_strategy == &sim__depth)
		conf.c_jobs = 1;                /* a run depends on the earlier ones */
	if (conf.c_trace && !conf.c_replay && conf.c_first != conf.c_last)
		stop("--trace: that is of one run: --seeds A or --replay FILE");
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

/* Returns the ending of a noun that follows the number n. */
static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Called at the end of main(): fails the run if live threads or descriptors remain. */
static void look_for_leaks(void)
{
	const struct sim_run *r = &sim__run;
	unsigned threads = r->r_live - r->r_dead - 1, more = descriptors() - at_begin;

	if (threads > 0)
		sim_fail("%u thread%s left at the end", threads,
			 threads == 1 ? " is" : "s are");
	if (more > 0)
		sim_fail("%u descriptor%s left at the end", more,
			 more == 1 ? " is" : "s are");
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

IN_PLACE_OF(_Exit) __attribute__((alias("uposix__exit")));

/*
 * Handles the signal of a timer. Fails the run if there was no step since the last
 * signal. A library that makes system calls itself, such as OpenMP's, may wait without a
 * step.
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

/* Opens a file as the standard input. */
static void open_input(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd > STDIN_FILENO) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
}

/*
 * Begins a run in the process of the run. Jumps back into sim__serve(), which then
 * returns.
 */
static void begin_process(const struct job *j, const struct sim_strategy *y, bool learns)
{
	const struct itimerval often = { { 0, TICK * 1000 }, { 0, TICK * 1000 } };
	const struct itimerspec hang = { { HANG, 0 }, { HANG, 0 } };
	struct sigevent sends = { .sigev_signo = SIGSTKFLT };
	int timer;
	struct sim_conf c = { .c_seed = y == &sim__depth ? j->j_outcome->u_seed
			      : j->j_seed, .c_steps = conf.c_steps,
			      .c_hang_ns = (int64_t)conf.c_time * SECOND };

	if (reads_file)                         /* each run reads from the beginning */
		open_input("/proc/self/fd/0");
	dup2(j->j_output[0], STDOUT_FILENO);
	dup2(j->j_output[1], STDERR_FILENO);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &sends, &timer) == 0)
		syscall(SYS_timer_settime, timer, 0, &hang, NULL);
	at_begin = conf.c_leaks ? descriptors() : 0;
	sim__run.r_outcome = j->j_outcome;
	sim__run.r_learns = learns;
	if (learns)
		sim__run.r_profile = first;
	sim__run.r_trace = trace;
	if (trace)
		trace->t_used = 0;
	sim__begin(&c, y);
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

static void begin_run(struct job *j, const struct sim_strategy *y, bool learns)
{
	j->j_outcome->u_end = SIM_GOES_ON;
	j->j_outcome->u_noted = 0;
	j->j_outcome->u_races.s_count = 0;
	j->j_process = _Fork();
	if (j->j_process < 0)
		stop("no process for a run");
	if (j->j_process == 0)
		begin_process(j, y, learns);
}

/*
 * Returns what is wrong with a run, as a text for the report, or NULL if the run passed.
 */
static const char *fault(struct sim_outcome *u, int status)
{
	char *words = u->u_message;

	if (u->u_end > SIM_REDUNDANT)
		return words;
	if (WIFSIGNALED(status))
		snprintf(words, SIM_MESSAGE, "signal %d, %s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		snprintf(words, SIM_MESSAGE, "exit status %d", WEXITSTATUS(status));
	else if (u->u_end == SIM_GOES_ON)
		snprintf(words, SIM_MESSAGE, "it has left by a system call");
	else
		return NULL;
	return words;
}

/*
 * Waits until any run ends, and returns its job. *wrong is the result of fault(), and is
 * valid until the job begins another run.
 */
static struct job *end_run(const char **wrong)
{
	struct job *j = jobs;
	int status = 0;
	pid_t process;

	do
		process = wait(&status);
	while (process < 0 && errno == EINTR);
	while (j < jobs + conf.c_jobs && j->j_process != process)
		j++;
	if (process < 0 || j == jobs + conf.c_jobs)
		stop("a run is lost");
	j->j_process = 0;
	*wrong = fault(j->j_outcome, status);
	for (unsigned i = 0; i < j->j_outcome->u_races.s_count; i++)
		sim__add_race(&races, &j->j_outcome->u_races.s_race[i]);
	return j;
}

/*
 * Takes the output of a run from file `from', and then empties this file. If `to' is not
 * NULL, copies the output there, in another process, since this one may allocate nothing.
 * Returns the hash of `hash' and the output.
 */
static uint64_t take_output(int from, FILE *to, uint64_t hash)
{
	static unsigned char block[BLOCK];
	pid_t shows = to && lseek(from, 0, SEEK_SET) == 0 ? _Fork() : -1;
	off_t at = 0;
	ssize_t n;

	if (shows == 0) {
		sim__show(from, to);
		_exit(0);
	}
	while (shows > 0 && waitpid(shows, NULL, 0) < 0 && errno == EINTR) { }
	while ((n = pread(from, block, sizeof block, at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			hash = sim__hash(hash, block[i]);
		at += n;
	}
	if (at > 0 && ftruncate(from, 0))
		stop("the output of a run cannot be cut off");
	return hash;
}

/* Returns the hash of a run with its output. If `shows' is true, prints the output. */
static uint64_t take_hash(struct job *j, bool shows)
{
	uint64_t hash = take_output(j->j_output[0], shows ? stdout : NULL,
				    j->j_outcome->u_hash);

	return take_output(j->j_output[1], shows ? stderr : NULL, hash);
}

/* Writes the trace of the last run. `wrong' is the result of fault(). */
static void write_trace(const char *wrong)
{
	FILE *f = trace ? file_of(conf.c_trace) : NULL;

	if (!trace)
		return;
	if (!f)
		stop("the file of the trace cannot be written");
	fputs("step,ns,host,thread,event,what,place,choice,message,to,arrival\n", f);
	fwrite(trace->t_bytes, 1, trace->t_used, f);
	fputs(",,,,end,\"", f);
	for (; wrong && *wrong; wrong++)
		fputc(*wrong == '"' ? '\'' : *wrong, f);
	fputs("\",,,,,\n", f);
	if (fclose(f))
		stop("the file of the trace cannot be written");
}

/* Makes the first run, and the profile. */
static void learn(void)
{
	const char *wrong;
	struct job *j;

	begin_run(jobs, &sim__in_order, true);
	j = end_run(&wrong);
	if (wrong) {
		write_trace(wrong);
		say("%s: with its threads in order, before the first seed: %s",
		    program[0], wrong);
	}
	take_hash(j, wrong != NULL);
	if (wrong)
		_exit(EXIT_FAILURE);
	sim__learned(first);
}

/* ---- Choices: replay and shrinking ---- */

static struct sim_choice choices[SIM_CHOICES];
static bool out[SIM_CHOICES];           /* choices that are left out in the next run */
static time_t shrunk_by;                /* the time when shrinking ends */

static const char *const heading = "usched-sim 1";

/* Writes the seed, which decides the program's random numbers, and then n choices. */
static void write_choices(const char *path, size_t n)
{
	FILE *f = file_of(path);

	if (f)
		fprintf(f, "%s %" PRIu64 "\n", heading, jobs[0].j_seed);
	for (size_t i = 0; f && i < n; i++)
		fprintf(f, "%" PRIu32 " %" PRIu32 " %" PRIu64 "\n",
			choices[i].c_by, choices[i].c_when, choices[i].c_what);
	if (!f || fclose(f))
		stop("the file of choices cannot be written");
}

static size_t read_choices(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[128];
	size_t n = 0;

	if (!f || !fgets(line, sizeof line, f)
	    || strncmp(line, heading, strlen(heading)) != 0
	    || sscanf(line + strlen(heading), "%" SCNu64, &jobs[0].j_seed) != 1)
		stop("--replay: that is no file of choices");
	for (; n < SIM_CHOICES && fgets(line, sizeof line, f); n++)
		if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu64, &choices[n].c_by,
			   &choices[n].c_when, &choices[n].c_what) != 3)
			stop("--replay: a line of the file is none of three numbers");
	fclose(f);
	return n;
}

/* Makes a run with n choices. Returns the result of fault(). */
static const char *try_choices(const struct sim_choice *some, size_t n)
{
	const char *wrong;

	sim__replay_these(some, n);
	begin_run(jobs, &sim__replay, false);
	end_run(&wrong);
	return wrong;
}

static void replay(void)
{
	size_t n = read_choices(conf.c_replay);
	const char *wrong = try_choices(choices, n);

	write_trace(wrong);
	say("%zu choice%s: %s", n, plural(n), wrong ? wrong : "it passed");
	take_hash(jobs, true);
	_exit(wrong ? EXIT_FAILURE : 0);
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

/* Returns whether a run with n choices fails like the run with the outcome `u'. If the
   program says what is wrong, the numbers in its message do not matter. */
static bool fails_again(const struct sim_choice *some, size_t n,
			const struct sim_outcome *u)
{
	const char *wrong = try_choices(some, n);

	take_hash(jobs, false);
	return wrong && are_alike(wrong, u->u_message,
				  u->u_end == SIM_FAILED ? "0123456789" : "");
}

/*
 * Tries to leave out the choices that are marked in out[], and clears the marks. If the
 * run fails again, the choices of that run are left, since some of the given choices may
 * not have come up any more.
 */
static bool leave_out(size_t *left, const struct sim_outcome *u)
{
	static struct sim_choice fewer[SIM_CHOICES];
	const struct sim_outcome *now = jobs[0].j_outcome;
	size_t n = 0;

	for (size_t i = 0; i < *left; i++)
		if (!out[i])
			fewer[n++] = choices[i];
	memset(out, 0, *left);
	if (n == *left || time(NULL) > shrunk_by || !fails_again(fewer, n, u))
		return false;
	*left = now->u_noted;
	memcpy(choices, now->u_choices, *left * sizeof choices[0]);
	return true;
}

/* Leaves out pieces of the list, which get smaller, down to one choice (Zeller,
   Hildebrandt: Simplifying and isolating failure-inducing input, 2002). */
static void leave_out_pieces(size_t *left, const struct sim_outcome *u)
{
	bool less;

	for (size_t piece = *left / 2 + 1; piece > 0; piece = less ? piece : piece / 2) {
		less = false;
		piece = piece < *left ? piece : *left;
		for (size_t at = 0; at < *left; ) {
			size_t size = piece < *left - at ? piece : *left - at;

			memset(out + at, true, size);
			if (leave_out(left, u))
				less = true;
			else
				at += size;
		}
	}
}

/*
 * Leaves out choices that are drawn: one in 2, 4, 8 or 16. Another one comes up to two
 * calls earlier, since a thread makes fewer calls if, say, no write is cut short. Returns
 * true when the run has failed without some.
 */
static bool leave_out_any(size_t *left, const struct sim_outcome *u)
{
	for (size_t tries = 0; tries < TRIES * *left; tries++) {
		uint32_t *when = &choices[sim__below(*left)].c_when;
		const uint32_t before = *when;

		for (size_t i = 0; i < *left; i++)
			out[i] = sim__below(UINT64_C(2) << tries % 4) == 0;
		*when -= (uint32_t)sim__below(3);
		if (leave_out(left, u))
			return true;
		*when = before;
	}
	return false;
}

/*
 * Shrinks the list of choices as far as it gets, and returns how many are left. All
 * choices after steps of one thread, or with one name, are left out first.
 */
static size_t shrink_once(const struct sim_outcome *u, unsigned round)
{
	size_t left = u->u_noted;

	memcpy(choices, u->u_choices, left * sizeof choices[0]);
	if (round > 1)
		leave_out_any(&left, u);
	do {
		for (size_t kind = 0; round % 2 == 0 && kind < KINDS; kind++) {
			for (size_t i = 0; i < left; i++)
				out[i] = sim__hash(choices[i].c_by, round) % KINDS
					== kind;
			leave_out(&left, u);
		}
		leave_out_pieces(&left, u);
	} while (left > 1 && leave_out_any(&left, u));
	return left;
}

/* Shrinks the list in other orders, too, until the time is over or none is better. */
static size_t shrink(const struct sim_outcome *u)
{
	static struct sim_choice best[SIM_CHOICES];
	size_t least = SIZE_MAX, left;

	shrunk_by = time(NULL) + SHRINK;
	for (unsigned round = 0, last = ROUNDS; round < last && least > 1; round++) {
		left = shrink_once(u, round);
		if (left >= least)
			continue;
		memcpy(best, choices, left * sizeof best[0]);
		least = left;
		last = round + ROUNDS;
	}
	memcpy(choices, best, least * sizeof best[0]);
	return least;
}

/* Shrinks a failure, and shows a run with the choices that are left. Returns false if
   there is no such run. */
static bool tell_shrunk(const struct sim_outcome *u)
{
	size_t n = u->u_noted, left;

	if (n > SIM_CHOICES) {
		say("it made too many choices to shrink them: %zu", n);
		return false;
	}
	if (!fails_again(u->u_choices, n, u)) {
		say("its choices alone do not make it fail");
		return false;
	}
	left = shrink(u);
	write_choices(conf.c_shrink, left);
	try_choices(choices, left);
	take_hash(jobs, true);
	say("%zu choice%s of %zu make%s it fail: usched-run --sim --replay %s%s", left,
	    plural(left), n, left == 1 ? "s" : "", conf.c_shrink, conf.c_again);
	return true;
}

/* ---- Results ---- */

static void tell_command(uint64_t seed)
{
	if (!conf.c_trace && conf.c_strategy != &sim__all)
		say("a picture: add --trace run.csv; uthreads draw run.csv run.svg");
	fputs("usched-run: again: usched-run --sim", stderr);
	if (conf.c_strategy == &sim__depth)
		fprintf(stderr, " --seeds %" PRIu64 "-%" PRIu64, conf.c_first, seed);
	else if (conf.c_strategy != &sim__all)
		fprintf(stderr, " --seeds %" PRIu64, seed);
	fputs(conf.c_again, stderr);
	sim__tell_with(stderr);
	for (; *program; program++)
		fprintf(stderr, " %s", *program);
	fputc('\n', stderr);
}

static void tell_failure(const struct job *j)
{
	struct job failed = *j;
	const struct sim_outcome *u = failed.j_outcome;

	say("seed %" PRIu64 ": %s, after %" PRIu64 " step%s and %" PRIu64
	    " run%s that passed", failed.j_seed, u->u_message, u->u_steps,
	    plural(u->u_steps), passed, plural(passed));
	jobs[0] = spare;
	jobs[0].j_seed = conf.c_strategy == &sim__depth ? u->u_seed : failed.j_seed;
	if (!conf.c_shrink || !tell_shrunk(u))
		take_hash(&failed, true);
	tell_command(failed.j_seed);
	_exit(EXIT_FAILURE);
}

static void tell_races(void)
{
	char place[SIM_PLACE], other[SIM_PLACE];

	for (unsigned i = 0; i < races.s_count; i++) {
		const struct sim_race *r = &races.s_race[i];

		sim__name_place(place, r->a_place);
		sim__name_place(other, r->a_other);
		say("a race, with the same result: one thread %s%s, another %s%s",
		    r->a_writes ? "writes" : "reads", place,
		    r->a_other_writes ? "writes" : "reads", other);
	}
}

static void tell_passed(void)
{
	tell_races();
	if (conf.c_strategy == &sim__all)
		say("all orders passed: %" PRIu64 ", and %" PRIu64
		    " redundant beginning%s", passed, redundant, plural(redundant));
	else
		say("%" PRIu64 " run%s passed, %" PRIu64 " step%s, hash %016" PRIx64,
		    passed, plural(passed), steps, plural(steps), all_hashes);
	_exit(0);
}

/* ---- Seeds ---- */

static void begin_seed(struct job *j, uint64_t seed, bool again)
{
	j->j_seed = seed;
	j->j_again = again;
	if (conf.c_strategy == &sim__depth && !again)
		j->j_outcome->u_seed = sim__recall(seed);
	begin_run(j, conf.c_strategy, false);
}

/*
 * Called when a run has passed. With --twice, if this was the first run of a seed, begins
 * the second run. Otherwise adds the run to the sums.
 */
static void settle(struct job *j)
{
	uint64_t hash = take_hash(j, conf.c_first == conf.c_last && !j->j_again);

	if (j->j_again && hash != j->j_hash) {
		say("seed %" PRIu64 ": the second run was another one: %016" PRIx64
		    ", not %016" PRIx64, j->j_seed, hash, j->j_hash);
		_exit(EXIT_FAILURE);
	}
	if (conf.c_twice && !j->j_again) {
		j->j_hash = hash;
		begin_seed(j, j->j_seed, true);
		return;
	}
	sim__remember(j->j_outcome);
	*(j->j_outcome->u_end == SIM_REDUNDANT ? &redundant : &passed) += 1;
	steps += j->j_outcome->u_steps;
	all_hashes ^= sim__hash(hash, j->j_seed);     /* runs may end in any order */
	if (conf.c_strategy == &sim__all && !sim__next_order())
		conf.c_last = 0;
}

/*
 * Runs all seeds. After a failure no more runs begin. Runs that have begun go on to their
 * end: if one of them fails under a lower seed, that failure is reported instead.
 */
static void run_seeds(void)
{
	uint64_t seed = conf.c_first;
	struct job *failed = NULL;
	unsigned running = 0;

	for (;;) {
		struct job *j = jobs;
		const char *wrong;

		while (!failed && running < conf.c_jobs && seed <= conf.c_last) {
			while (j->j_process)
				j++;
			begin_seed(j, conf.c_strategy == &sim__all ? 0 : seed, false);
			seed++;
			running++;
		}
		if (running == 0)
			break;
		j = end_run(&wrong);
		write_trace(wrong);
		if (!wrong)
			settle(j);
		else if (!failed || j->j_seed < failed->j_seed)
			failed = j;
		running -= !j->j_process;
	}
	if (failed)
		tell_failure(failed);
	tell_passed();
}

/*
 * Creates all that runs inherit from this process. The profile knows objects by address.
 * So nothing is mapped or allocated later, and objects are at the same addresses in all
 * runs. If the standard input is a file, each run can read it; otherwise it is empty.
 */
static void prepare(void)
{
	const struct sigaction on_tick = {
		.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART,
	};
	struct stat s;

	make_job(&spare);
	for (unsigned i = 0; i < conf.c_jobs; i++)
		make_job(&jobs[i]);

	reads_file = fstat(STDIN_FILENO, &s) == 0 && S_ISREG(s.st_mode);
	if (!reads_file)
		open_input("/dev/null");
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
	read_settings();
	unsetenv("USCHED_SIM");         /* programs that this program starts do not
					   simulate */
	prepare();
	learn();
	if (conf.c_replay)
		replay();
	run_seeds();
}
