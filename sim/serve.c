/* SPDX-License-Identifier: MIT */
/*
 * serve.c: runs of a whole program under many seeds. The program is loaded once. Before
 * main() this process forks one for each run, and waits:
 *
 *	first run       in order: what several threads use becomes the profile
 *	each seed       the strategy's, with that profile
 *	shrinking       after a failure: the same with fewer choices
 *
 * A run writes its outcome and its choices into memory that both have, and its output
 * into files in memory, which are read when it has ended, for the hash, too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* memfd_create(), _Fork(), on_exit() */
#endif
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../private/text.h"
#include "order.h"
#include "run.h"

enum {
	JOBS   = 256,                   /* at once, at most */
	STALL  = 5,                     /* s of the processor without a step */
	SHOW   = 20000,                 /* ns: 20 us, between looks at the output */
	BLOCK  = 1 << 16,               /* bytes */
	TRACE  = 1 << 30,               /* bytes: ten million events; more are cut off */
};

/* A run: its process, or an empty place. */
struct job {
	pid_t               j_process;
	uint64_t            j_seed;
	bool                j_again;            /* to compare with j_hash */
	uint64_t            j_hash;
	int                 j_output[2];
	struct sim_outcome *j_outcome;
};

static struct {
	uint64_t    c_first;
	uint64_t    c_last;
	const char *c_strategy;
	unsigned    c_bound;
	unsigned    c_jobs;
	uint64_t    c_steps;
	bool        c_twice;
	bool        c_leaks;            /* what is left at the end is a failure */
	bool        c_all;              /* the strategy "all" */
	const char *c_shrink;           /* file to write, or NULL */
	const char *c_replay;           /* file to read, or NULL */
	const char *c_trace;            /* file to write, or NULL */
} conf;

static struct sim_profile *profile;
static struct text *trace;              /* its bytes follow; NULL: there is to be none */
static struct job jobs[JOBS];
static uint64_t passed, steps, all_hashes;
static char **program;
static unsigned at_begin;               /* descriptors */

bool sim__is_wanted(void)
{
	return getenv("USCHED_SIM") != NULL;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char line[2 * SIM_MESSAGE];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	fflush(stdout);
	fprintf(stderr, "usched-run: %s\n", line);
}

static void stop(const char *what)
{
	say("%s", what);
	_exit(2);
}

/* ---- Settings ---- */

static uint64_t number(const char *text, char **end)
{
	uint64_t n;

	errno = 0;
	n = strtoull(text, end, 10);
	if (errno || *end == text || *text < '0' || *text > '9')
		stop("a number in the environment is none: USCHED_SIM...");
	return n;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;

	return text && *text ? number(text, &end) : otherwise;
}

static void read_settings(void)
{
	static char strategy[16];
	const char *seeds = getenv("USCHED_SIM"), *given = getenv("USCHED_SIM_STRATEGY");
	const char *bound = given ? strchr(given, ':') : NULL;
	char *end;

	conf.c_first = conf.c_last = number(seeds, &end);
	if (*end == '-')
		conf.c_last = number(end + 1, &end);
	if (*end || conf.c_last < conf.c_first || conf.c_last == UINT64_MAX)
		stop("--seeds: A or A-B, and A is the lesser");
	if (given) {
		snprintf(strategy, sizeof strategy, "%.*s",
			 bound ? (int)(bound - given) : (int)strlen(given), given);
		conf.c_strategy = strategy;
		conf.c_bound = bound ? (unsigned)number(bound + 1, &end) : 0;
	}
	conf.c_all = conf.c_strategy && strcmp(conf.c_strategy, sim__all.y_name) == 0;
	if (!conf.c_all && !sim__strategy(conf.c_strategy))
		stop("--strategy: mix, site, surw, pos, pct, delay, random or all");
	conf.c_jobs = (unsigned)setting("USCHED_SIM_JOBS", 1);
	if (conf.c_jobs == 0 || conf.c_jobs > JOBS)
		stop("--jobs: 1 to 256");
	conf.c_steps = setting("USCHED_SIM_STEPS", 0);
	conf.c_twice = setting("USCHED_SIM_TWICE", 0);
	conf.c_leaks = setting("USCHED_SIM_LEAKS", 0);
	conf.c_shrink = getenv("USCHED_SIM_SHRINK");
	conf.c_replay = getenv("USCHED_SIM_REPLAY");
	conf.c_trace = getenv("USCHED_SIM_TRACE");
	if (conf.c_trace && !conf.c_replay && (conf.c_all || conf.c_first != conf.c_last))
		stop("--trace: that is of one run: --seeds A or --replay FILE");
}

/* ---- In the process of a run ---- */

/* Descriptors that are open, of those that are the program's. */
static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < sim__high(); fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* At the end of main(), of the threads of hosts that are up. */
static void look_for_leaks(void)
{
	const struct sim_run *r = &sim__run;
	unsigned threads = r->r_live - r->r_dead - 1, more = descriptors() - at_begin;

	if (threads > 0)
		sim_fail("%u threads are left at the end", threads);
	if (more > 0)
		sim_fail("%u descriptors are left at the end", more);
}

static void end_outcome(int status, void *unused)
{
	struct sim_run *r = &sim__run;

	(void)unused;
	if (!r->r_outcome || r->r_outcome->u_end != SIM_GOES_ON)
		return;
	if (status)
		sim__tell("the exit status is not 0");
	else if (conf.c_leaks)
		look_for_leaks();
	r->r_outcome->u_end = SIM_PASSED;
	r->r_outcome->u_hash = r->r_hash;
	r->r_outcome->u_steps = r->r_steps;
	if (r->r_learns)
		r->r_profile->p_steps = r->r_steps;
}

/* It has used the processor for so long since the last look. */
static void look(int signal)
{
	static uint64_t seen = UINT64_MAX;

	(void)signal;
	if (sim__run.r_steps == seen)
		sim__end(SIM_ENDLESS, "it uses the processor and makes no step");
	seen = sim__run.r_steps;
}

/* Each run reads a file from its begin, and of what cannot be read again nothing. */
static void open_input(void)
{
	struct stat s;
	bool again = fstat(STDIN_FILENO, &s) == 0 && S_ISREG(s.st_mode);
	int fd = open(again ? "/proc/self/fd/0" : "/dev/null", O_RDONLY);

	if (fd > STDIN_FILENO) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
}

static void begin_process(const struct job *j, const struct sim_strategy *y, bool learns)
{
	const struct itimerval stall = { { STALL, 0 }, { STALL, 0 } };
	struct sim_conf c = { .c_seed = j->j_seed, .c_bound = conf.c_bound,
			      .c_steps = conf.c_steps };

	open_input();
	dup2(j->j_output[0], STDOUT_FILENO);
	dup2(j->j_output[1], STDERR_FILENO);
	sim__tell_signals();
	signal(SIGVTALRM, look);
	setitimer(ITIMER_VIRTUAL, &stall, NULL);
	at_begin = conf.c_leaks ? descriptors() : 0;
	sim__run.r_outcome = j->j_outcome;
	sim__run.r_profile = profile;
	sim__run.r_learns = learns;
	sim__run.r_trace = trace;
	if (trace)
		trace->t_used = 0;
	sim__begin(&c, y);
}

/* ---- Runs, one each ---- */

static void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		stop("no memory for runs");
	return memory;
}

static void make_job(struct job *j)
{
	j->j_outcome = share(sizeof *j->j_outcome);
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

/* True: this is the process of the run. */
static bool begin_run(struct job *j, const struct sim_strategy *y, bool learns)
{
	if (!j->j_outcome)
		make_job(j);
	j->j_outcome->u_end = SIM_GOES_ON;
	j->j_outcome->u_noted = 0;
	j->j_process = _Fork();
	if (j->j_process < 0)
		stop("no process for a run");
	if (j->j_process > 0)
		return false;
	begin_process(j, y, learns);
	return true;
}

/* What came of it, in the words of a report; NULL: it passed. */
static const char *fault(const struct sim_outcome *u, int status)
{
	static char words[SIM_MESSAGE];

	if (u->u_end > SIM_REDUNDANT)
		return u->u_message;
	if (WIFSIGNALED(status))
		snprintf(words, sizeof words, "signal %d, %s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		snprintf(words, sizeof words, "exit status %d", WEXITSTATUS(status));
	else if (u->u_end == SIM_GOES_ON)
		snprintf(words, sizeof words, "it has left by _exit()");
	else
		return NULL;
	return words;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Reads what a run wrote, and writes it to `to', unless that is -1. Returns its hash. */
static uint64_t take_output(int from, int to, uint64_t hash)
{
	static unsigned char block[BLOCK];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, block, sizeof block, at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			hash = mix(hash, block[i]);
		if (to >= 0)
			(void)!write(to, block, (size_t)n);
		at += n;
	}
	if (at > 0 && ftruncate(from, 0))
		stop("the output of a run cannot be cut off");
	return hash;
}

/* After the end of its process. */
static uint64_t take_hash(struct job *j, bool shows)
{
	uint64_t hash = take_output(j->j_output[0], shows ? STDOUT_FILENO : -1,
				    j->j_outcome->u_hash);

	return take_output(j->j_output[1], shows ? STDERR_FILENO : -1, hash);
}

/* Waits for that process. Returns its status. */
static int await(struct job *j)
{
	int status = 0;

	while (waitpid(j->j_process, &status, 0) < 0 && errno == EINTR)
		;
	j->j_process = 0;
	return status;
}

/* The trace of the last run; `wrong' is what came of it, or NULL. */
static void write_trace(const char *wrong)
{
	FILE *f = trace ? fopen(conf.c_trace, "we") : NULL;

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

/* The first run. True: this is its process. */
static bool learn(void)
{
	struct job *j = &jobs[0];
	const char *wrong;
	int status;

	j->j_seed = 0;
	if (begin_run(j, &sim__in_order, true))
		return true;
	status = await(j);
	wrong = fault(j->j_outcome, status);
	take_hash(j, wrong != NULL);
	if (wrong) {
		write_trace(wrong);
		say("%s: with its threads in order, before the first seed: %s",
		    program[0], wrong);
		_exit(EXIT_FAILURE);
	}
	sim__learned(profile);
	return false;
}

/* ---- Choices as a file ---- */

static const char *const heading = "usched-sim 1";

/* With the seed, which random numbers of the program come from. */
static void write_choices(const char *path, const struct sim_choice *c, size_t n)
{
	FILE *f = fopen(path, "we");

	if (f)
		fprintf(f, "%s %" PRIu64 "\n", heading, jobs[0].j_seed);
	for (size_t i = 0; f && i < n; i++)
		fprintf(f, "%" PRIu32 " %" PRIu32 " %" PRIu64 "\n", c[i].c_by,
			c[i].c_when, c[i].c_what);
	if (!f || fclose(f))
		stop("the file of choices cannot be written");
}

static size_t read_choices(const char *path, struct sim_choice *c)
{
	FILE *f = fopen(path, "re");
	char line[128];
	size_t n = 0;

	if (!f || !fgets(line, sizeof line, f)
	    || strncmp(line, heading, strlen(heading)) != 0
	    || sscanf(line + strlen(heading), "%" SCNu64, &jobs[0].j_seed) != 1)
		stop("--replay: that is no file of choices");
	while (n < SIM_CHOICES && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu64, &c[n].c_by,
			   &c[n].c_when, &c[n].c_what) != 3)
			stop("--replay: a line of the file is none of three numbers");
		n++;
	}
	fclose(f);
	return n;
}

/* ---- Shrinking ---- */

/*
 * Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002: pieces of
 * the list are left out while the run still fails so; pieces become smaller, down to one.
 */
static struct sim_choice *kept;
static size_t keeps;
static char wanted[SIM_MESSAGE];

/* 1: this is the process of the run; 0: it fails as before; -1: not so. */
static int try_choices(const struct sim_choice *c, size_t n)
{
	struct job *j = &jobs[0];
	const char *wrong;
	int status;

	sim__replay_these(c, n);
	if (begin_run(j, &sim__replay, false))
		return 1;
	status = await(j);
	wrong = fault(j->j_outcome, status);
	take_hash(j, false);
	return wrong && strcmp(wrong, wanted) == 0 ? 0 : -1;
}

/* True: this is the process of a run. */
static bool shrink(void)
{
	struct sim_choice *part = malloc((keeps + 1) * sizeof *part);
	size_t piece = (keeps + 1) / 2;

	while (part && piece > 0 && keeps > 0) {
		bool less = false;

		for (size_t at = 0; at < keeps; ) {
			size_t end = at + piece < keeps ? at + piece : keeps;
			int rc;

			memcpy(part, kept, at * sizeof *part);
			memcpy(part + at, kept + end, (keeps - end) * sizeof *part);
			rc = try_choices(part, keeps - (end - at));
			if (rc > 0)
				return true;
			if (rc < 0) {
				at = end;
				continue;
			}
			keeps -= end - at;
			memcpy(kept, part, keeps * sizeof *part);
			less = true;
		}
		piece = piece > keeps ? keeps : less ? piece : piece / 2;
		if (piece > keeps)
			piece = keeps;
	}
	free(part);
	return false;
}

/* ---- What came of it ---- */

static void tell_command(uint64_t seed)
{
	char line[SIM_MESSAGE];
	size_t n = 0;
	int more = snprintf(line, sizeof line, "again: usched-run --sim");

	if (!conf.c_all)
		more += snprintf(line + more, sizeof line - (size_t)more,
				 " --seeds %" PRIu64, seed);
	if (conf.c_strategy && more > 0)
		more += snprintf(line + more, sizeof line - (size_t)more,
				 " --strategy %s", getenv("USCHED_SIM_STRATEGY"));
	if (conf.c_steps && more > 0)
		more += snprintf(line + more, sizeof line - (size_t)more,
				 " --steps %" PRIu64, conf.c_steps);
	for (n = (size_t)more; *program && n < sizeof line; program++)
		n += (size_t)snprintf(line + n, sizeof line - n, " %s", *program);
	say("%s", line);
}

/* True: this is the process of a run. */
static bool tell_shrunk(struct sim_outcome *u)
{
	size_t before = u->u_noted;
	int rc;

	if (u->u_noted > SIM_CHOICES) {
		say("it made too many choices to shrink them: %zu", before);
		return false;
	}
	kept = malloc((before + 1) * sizeof *kept);
	if (!kept)
		stop("no memory for choices");
	memcpy(kept, u->u_choices, before * sizeof *kept);
	keeps = before;
	rc = try_choices(kept, keeps);
	if (rc > 0)
		return true;
	if (rc < 0) {
		say("its choices alone do not make it fail");
		return false;
	}
	if (shrink())
		return true;
	write_choices(conf.c_shrink, kept, keeps);
	say("%zu choices of %zu make it fail: usched-run --sim --replay %s",
	    keeps, before, conf.c_shrink);
	return false;
}

/* True: this is the process of a run. */
static bool tell_failure(struct job *j, const char *wrong)
{
	uint64_t seed;

	snprintf(wanted, sizeof wanted, "%s", wrong);
	take_hash(j, true);
	say("seed %" PRIu64 ": %s, after %" PRIu64 " steps and %" PRIu64
	    " runs that passed", j->j_seed, wanted, j->j_outcome->u_steps, passed);
	seed = jobs[0].j_seed = j->j_seed;
	if (conf.c_shrink && tell_shrunk(j->j_outcome))
		return true;
	tell_command(seed);
	_exit(EXIT_FAILURE);
}

/* ---- Seeds ---- */

static struct job *ended_job(int *status)
{
	pid_t process;

	do
		process = waitpid(-1, status, 0);
	while (process < 0 && errno == EINTR);
	for (unsigned i = 0; i < conf.c_jobs; i++)
		if (jobs[i].j_process == process)
			return &jobs[i];
	stop("a run is lost");
	return NULL;
}

/* True: this is the process of a run. */
static bool begin_seed(struct job *j, uint64_t seed, bool again)
{
	j->j_seed = seed;
	j->j_again = again;
	return begin_run(j, sim__strategy(conf.c_strategy), false);
}

/* It has passed. True: this is the process of its second run. */
static bool settle(struct job *j, bool single)
{
	uint64_t hash = take_hash(j, single && !j->j_again);

	if (j->j_again && hash != j->j_hash) {
		say("seed %" PRIu64 ": the second run was another one: %016" PRIx64
		    ", not %016" PRIx64, j->j_seed, hash, j->j_hash);
		_exit(EXIT_FAILURE);
	}
	if (conf.c_twice && !j->j_again) {
		j->j_hash = hash;
		return begin_seed(j, j->j_seed, true);
	}
	passed++;
	steps += j->j_outcome->u_steps;
	all_hashes ^= mix(hash, j->j_seed);     /* in any order */
	return false;
}

/* All seeds. With several jobs a failure of a lesser seed may still come. */
static void run_seeds(void)
{
	const bool single = conf.c_first == conf.c_last;
	uint64_t seed = conf.c_first;
	struct job *failed = NULL;
	char wrong[SIM_MESSAGE];
	unsigned running = 0;

	for (;;) {
		struct job *j = jobs;
		const char *words;
		int status;

		while (!failed && running < conf.c_jobs && seed <= conf.c_last) {
			while (j->j_process)
				j++;
			if (begin_seed(j, seed++, false))
				return;
			running++;
		}
		if (running == 0)
			break;
		j = ended_job(&status);
		j->j_process = 0;
		words = fault(j->j_outcome, status);
		write_trace(words);
		if (!words && settle(j, single))
			return;
		if (j->j_process)
			continue;
		running--;
		if (!words || (failed && failed->j_seed < j->j_seed))
			continue;
		failed = j;
		snprintf(wrong, sizeof wrong, "%s", words);
	}
	if (failed && tell_failure(failed, wrong))
		return;
	say("%" PRIu64 " %s passed, %" PRIu64 " steps, hash %016" PRIx64, passed,
	    passed == 1 ? "run" : "runs", steps, all_hashes);
	_exit(0);
}

/* True: this is the process of a run. */
static bool run_all(void)
{
	struct job *j = &jobs[0];
	uint64_t redundant = 0;

	sim__use_order(share(sim__order_size()));
	do {
		const char *wrong;
		int status;

		if (begin_run(j, &sim__all, false))
			return true;
		status = await(j);
		wrong = fault(j->j_outcome, status);
		if (wrong && tell_failure(j, wrong))
			return true;
		take_hash(j, false);
		if (j->j_outcome->u_end == SIM_REDUNDANT)
			redundant++;
		else
			passed++;
	} while (sim__next_order());
	say("all orders passed: %" PRIu64 ", and %" PRIu64 " redundant beginnings",
	    passed, redundant);
	_exit(0);
}

/* True: this is the process of the run. */
static bool replay(void)
{
	struct job *j = &jobs[0];
	const char *wrong;
	size_t n;
	int status;

	kept = malloc(SIM_CHOICES * sizeof *kept);
	if (!kept)
		stop("no memory for choices");
	n = read_choices(conf.c_replay, kept);
	sim__replay_these(kept, n);
	if (begin_run(j, &sim__replay, false))
		return true;
	status = await(j);
	wrong = fault(j->j_outcome, status);
	take_hash(j, true);
	write_trace(wrong);
	say("%zu choices: %s", n, wrong ? wrong : "it passed");
	_exit(wrong ? EXIT_FAILURE : 0);
}

void sim__serve(char **argv)
{
	program = argv;
	read_settings();
	unsetenv("USCHED_SIM");         /* for what the program starts */
	profile = share(sizeof *profile);
	if (conf.c_trace) {
		trace = share(TRACE);
		*trace = (struct text){ .t_bytes = (char *)(trace + 1), .t_fd = -1,
					.t_room = TRACE - sizeof *trace };
	}
	on_exit(end_outcome, NULL);
	fflush(NULL);
	if (learn())
		return;
	if (conf.c_replay ? replay() : conf.c_all && run_all())
		return;
	run_seeds();
}
