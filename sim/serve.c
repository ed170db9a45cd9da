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
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../arch/arch.h"
#include "../posix/uposix_set.h"
#include "../src/core/outside.h"
#include "../src/base/text.h"
#include "world.h"

enum {
	JOBS   = 256,                   /* the most runs at a time */
	TICK   = 10,                    /* ms of CPU time between two calls of tick() */
	STALL  = 5000 / TICK,           /* a thread spins after so many ticks in a step */
	STATES = 16,                    /* states of a thread that are compared */
	STATE  = 6144,                  /* bytes of the stack in a state: what the kernel
					   saves for a signal, and some variables */
	HANG   = 30,                    /* s without a step, after which a run fails */
	ODDS   = 100,                   /* odds of a fault that has none in --faults */
	BLOCK  = 1 << 16,               /* bytes of output that are read at a time */
	SHRINK = 60,                    /* s that shrinking may take */
	LEARNS = 4,                     /* first runs, if accesses to memory are steps */
	TRIES  = 32,                    /* vain tries to leave something out, for each
					   choice that is left */
	ROUNDS = 10,                    /* rounds of shrinking after the best one */
	LINE   = 64,                    /* the most bytes of a choice in a file */
	TRACE  = 1 << 30,               /* bytes of a trace, for ten million events; later
					   events are left out */
};

/* A run, one at a time. */
struct job {
	pid_t               j_process;          /* 0: the run has ended */
	uint64_t            j_seed;
	bool                j_again;            /* the second run of a seed, */
	uint64_t            j_hash;             /* which should have this hash */
	int                 j_output[2];
	struct sim_outcome *j_outcome;
	const char         *j_wrong;            /* what is wrong with the run, or NULL */
};

static struct {
	uint64_t c_seeds[2];            /* the first and the last */
	uint64_t c_jobs, c_steps, c_time, c_twice, c_leaks;
	const struct sim_strategy *c_strategy;
} conf = { .c_seeds = { 1, 1000 }, .c_jobs = 1 };

static struct job jobs[1 + JOBS];       /* jobs[0] is for first runs, and to shrink */
static struct sim_races races;          /* of all runs */
static uint64_t passed, redundant, steps, all_hashes;   /* sums over all runs */
static char **program;                  /* argv */
static jmp_buf run_begins;              /* a point in sim__serve(), where each run begins
					   with the same depth of the stack */
static unsigned at_begin;               /* open descriptors when the run began */

/* Copies a text, or else a file, in another process, since this one may allocate
   nothing. Without another process there are no more runs either. */
static void show(const char *text, int from, FILE *to)
{
	const pid_t shows = _Fork();

	if (shows <= 0)
		sim__show(text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r")
			  : fdopen(from, "r"), to);
	if (shows == 0)
		_exit(0);
	while (shows > 0 && waitpid(shows, NULL, 0) < 0 && errno == EINTR) { }
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
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

#define STOP(...) do {								\
	say(__VA_ARGS__);							\
	_exit(2);								\
} while (0)

/* ---- Options ---- */

/* Returns the value of an option, or NULL: of USCHED_SIM, or USCHED_SIM_OPTION. */
static const char *value_of(const char *option)
{
	char variable[32] = "USCHED_SIM_";
	const char *value;

	for (size_t i = 0; option[i]; i++)
		variable[strlen("USCHED_SIM_") + i] = (char)toupper(option[i]);
	if (strcmp(option, "seeds") == 0)
		variable[strlen("USCHED_SIM")] = '\0';
	value = outside_setting(variable);
	return value && *value ? value : NULL;
}

static void refuse(const char *option, const char *give)
{
	STOP("--%s: '%s': give %s", option, value_of(option), give);
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

/* ---- In the process of a run ---- */

/* Returns how many descriptors the program has. */
static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < sim__high(); fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Fails the run if there are more things at the end of main() than there should be. */
static void look_for_leaks(const char *what, unsigned more)
{
	if (more > 0)
		sim_fail("%u %s%s left at the end", more, what,
			 more == 1 ? " is" : "s are");
}

/* Called when the process of a run exits. Writes the outcome, unless that is done. */
static void end_process(int status, void *unused)
{
	struct sim_outcome *u = sim__run.r_outcome;

	(void)unused;
	if (!u || u->u_end != SIM_GOES_ON)
		return;
	if (status) {
		sim__tell("the exit status is not 0");
	} else if (conf.c_leaks) {
		look_for_leaks("thread", sim__run.r_live - sim__run.r_dead
			       - sim__run.r_plans - 1);
		look_for_leaks("descriptor", descriptors() - at_begin);
	}
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
 * Handles the signal of the timer of CPU time. A thread that makes no step spins if its
 * state is an earlier one again. A thread that computes has other states, and is not
 * interrupted, since the run has to be the same on a slow processor. So that no lock of
 * libc is held, a thread is interrupted in code of the program only.
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

	dup2(fd, STDIN_FILENO);
	if (fd > STDIN_FILENO)
		close(fd);
}

/* Begins a run in its process: jumps back into sim__serve(), which then returns. */
static void begin_process(const struct job *j, const struct sim_strategy *y)
{
	const struct itimerval often = { { 0, TICK * 1000 }, { 0, TICK * 1000 } };
	const struct itimerspec hang = { { HANG, 0 }, { HANG, 0 } };
	struct sigevent sends = { .sigev_signo = SIGSTKFLT };
	struct text *trace = sim__run.r_trace;
	int timer;

	begin_input();
	dup2(j->j_output[0], STDOUT_FILENO);
	dup2(j->j_output[1], STDERR_FILENO);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &sends, &timer) == 0)
		syscall(SYS_timer_settime, timer, 0, &hang, NULL);
	at_begin = conf.c_leaks ? descriptors() : 0;
	sim__run.r_outcome = j->j_outcome;
	if (sim__run.r_learns || sim__profile.p_calls)
		sim__catch_calls();
	if (trace) {
		trace->t_used = 0;
		text_put(trace, "step,ns,host,thread,event,what,place,choice,message,to,"
			 "arrival\n");
	}
	sim__begin(&(struct sim_conf){ .c_seed = j->j_outcome->u_seed,
				       .c_steps = conf.c_steps,
				       .c_hang_ns = (int64_t)conf.c_time * SECOND }, y);
	longjmp(run_begins, 1);
}

/* ---- Single runs ---- */

void *sim__share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		STOP("no memory for runs");
	return memory;
}

static void make_job(struct job *j)
{
	j->j_outcome = sim__share(sizeof *j->j_outcome);
	for (int i = 0; i < 2; i++) {
		int low = memfd_create("usched output", MFD_CLOEXEC);

		j->j_output[i] = sim__own(low);
		close(low);
		if (fcntl(j->j_output[i], F_SETFL, O_APPEND) < 0)
			STOP("no file for the output of runs");
	}
}

static void begin_run(struct job *j, const struct sim_strategy *y)
{
	j->j_outcome->u_end = SIM_GOES_ON;
	j->j_outcome->u_noted = 0;
	j->j_outcome->u_races.s_count = 0;
	if (ftruncate(j->j_output[0], 0) || ftruncate(j->j_output[1], 0))
		STOP("the output of a run cannot be cut off");
	j->j_process = _Fork();
	if (j->j_process < 0)
		STOP("no process for a run");
	if (j->j_process == 0)
		begin_process(j, y);
}

/* Returns what is wrong with a run, or NULL if the run passed. */
static const char *fault(struct sim_outcome *u, int status)
{
	if (u->u_end <= SIM_REDUNDANT && WIFSIGNALED(status))
		snprintf(u->u_message, SIM_MESSAGE, "signal %d, %s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (u->u_end <= SIM_REDUNDANT && WEXITSTATUS(status))
		snprintf(u->u_message, SIM_MESSAGE, "exit status %d",
			 WEXITSTATUS(status));
	else if (u->u_end == SIM_GOES_ON)
		strcpy(u->u_message, "it has left by a system call");
	else if (u->u_end <= SIM_REDUNDANT)
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
		STOP("a run is lost");
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

/* Writes a text to the file of an option. */
static void write_file(const char *option, struct text *t)
{
	const char *path = value_of(option);

	t->t_fd = outside_file(path, 0);
	if (t->t_fd < 0 || (ftruncate(t->t_fd, 0) && errno != EINVAL))
		t->t_rc = -errno;
	text_flush(t);
	if (t->t_rc == 0 && close(t->t_fd))
		t->t_rc = -errno;
	if (t->t_rc)
		STOP("--%s: '%s' cannot be written: %s", option, path,
		     strerror(-t->t_rc));
}

/* Ends this process after the last run. */
static void finish(const struct job *j)
{
	struct text *trace = sim__run.r_trace;

	if (trace) {
		trace->t_room += LINE + SIM_MESSAGE;
		text_put(trace, ",,,,end,\"");
		for (const char *at = j->j_wrong; at && *at; at++)
			text_bytes(trace, *at == '"' ? "'" : at, 1);
		text_put(trace, "\",,,,,\n");
		write_file("trace", trace);
	}
	_exit(j->j_wrong ? EXIT_FAILURE : 0);
}

/* The choices that a run needs at most to fail, and those that the next run tries. */
static struct sim_outcome left, fewer;

/* The file has the seed, which decides the program's random numbers, and then choices. */
static void write_choices(void)
{
	static char bytes[LINE * SIM_CHOICES];
	struct text t = TEXT(bytes, -1);

	text_add(&t, "usched-sim 1 %zu\n", (size_t)jobs[0].j_outcome->u_seed);
	for (uint64_t i = 0; i < left.u_noted; i++)
		text_add(&t, "%u %u %zu\n", left.u_choices[i].c_by,
			 left.u_choices[i].c_when, (size_t)left.u_choices[i].c_what);
	write_file("shrink", &t);
}

static void read_choices(void)
{
	FILE *f = fopen(value_of("replay"), "re");
	struct sim_choice *c = left.u_choices;
	int n = f && fscanf(f, "usched-sim 1 %" SCNu64, &conf.c_seeds[0]) == 1 ? 3 : 0;

	while (n == 3 && c < left.u_choices + SIM_CHOICES) {
		n = fscanf(f, "%" SCNu32 "%" SCNu32 "%" SCNu64, &c->c_by, &c->c_when,
			   &c->c_what);
		c += n == 3;
	}
	if (n != 3 && n != EOF)
		refuse("replay", "a file that --shrink has written");
	fclose(f);
	conf.c_seeds[1] = conf.c_seeds[0];
	conf.c_strategy = &sim__replay;
	sim__replay_these(left.u_choices, (size_t)(c - left.u_choices));
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
 * `u', whose message may have other numbers if it is the program's. Then those of the
 * choices that have come up are left.
 */
static bool fails_again(const struct sim_outcome *with, const struct sim_outcome *u)
{
	const struct job *j = &jobs[0];

	sim__replay_these(with->u_choices, with->u_noted);
	begin_run(&jobs[0], &sim__replay);
	end_run();
	if (!j->j_wrong || !are_alike(j->j_wrong, u->u_message,
				      u->u_end == SIM_FAILED ? "0123456789" : ""))
		return false;
	left = *j->j_outcome;
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

	for (size_t vain = 0; vain < TRIES * left.u_noted && time(NULL) < until; vain++) {
		const size_t n = left.u_noted, at = sim__below(n);
		const uint64_t way = sim__below(3), salt = sim__random();

		if (vain > 0 || size > n)
			size = size > 1 ? size - size / 4 - 1 : n / 2 + 1;
		fewer.u_noted = 0;
		for (size_t i = 0; i < n; i++) {
			const struct sim_choice *c = &left.u_choices[i];
			const uint64_t rank = way == 0 ? i - at : way == 1 ? sim__below(n)
				: sim__hash(c->c_by, salt) % n;

			if (rank >= size)
				fewer.u_choices[fewer.u_noted++] = *c;
		}
		if (vain > TRIES / 2 * n && fewer.u_noted > 0)
			fewer.u_choices[sim__below(fewer.u_noted)].c_when -=
				(uint32_t)sim__below(3);
		if (fewer.u_noted < n && fails_again(&fewer, u))
			vain = 0;
	}
}

/*
 * Shrinks a failure several times, and makes a run with the fewest choices. Returns false
 * if there is no such run.
 */
static bool shrink(const struct sim_outcome *u)
{
	static struct sim_outcome best;
	const time_t until = time(NULL) + SHRINK;

	if (u->u_noted > SIM_CHOICES) {
		say("it made too many choices to shrink them: %" PRIu64, u->u_noted);
		return false;
	}
	best = *u;
	if (!fails_again(&best, u)) {
		say("its choices alone do not make it fail");
		return false;
	}
	for (int vain = 0; vain < ROUNDS && best.u_noted > 1; vain++) {
		left = *u;
		leave_out(u, until);
		if (left.u_noted < best.u_noted) {
			best = left;
			vain = 0;
		}
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
		/* There 0 stands for the default, so 0 us become 1 ns. */
		sim__faults.f_latency_ns = (int64_t)us[0] * MICROSECOND + !us[0];
		sim__faults.f_latency_most_ns = (int64_t)us[1] * MICROSECOND + !us[1];
		sim__faults.f_latency_rare_ns = (int64_t)us[2] * MICROSECOND + !us[2];
	}
	read_faults();
	if (value_of("hosts") && !sim__list_hosts(value_of("hosts")))
		refuse("hosts", "NAME=ADDRESS, and more after commas");
	read_strategy();
	if (conf.c_strategy == &sim__all) {     /* which says when there are no more */
		conf.c_seeds[0] = 0;
		conf.c_seeds[1] = UINT64_MAX - 1;
	}
	if (value_of("replay"))
		read_choices();
	if (conf.c_strategy->y_prepare)
		conf.c_jobs = 1;
	if (value_of("trace") && conf.c_seeds[0] != conf.c_seeds[1])
		refuse("trace", "a file, and one run: --seeds A or --replay FILE");
}

/* ---- Results ---- */

/* A number with its noun, for a format with "%" PRIu64 " noun%s". */
#define MANY(n) (n), (n) == 1 ? "" : "s"

/* Adds a word to a command, in quotes if a shell has to have them. */
static void put_word(const char *option, const char *word)
{
	const char *quote = !strpbrk(word, " \t\n'\"\\$&();<>|*?[]{}`~#!") && *word ? ""
		: strchr(word, '\'') ? "\"" : "'";

	fprintf(stderr, "%s%s %s%s%s", *option ? " --" : "", option, quote, word, quote);
}

/* Says a command that repeats a run: an option, others, and the program. */
static void say_command(const char *why, const char *option, const char *value)
{
	static const char *const more[] = {
		"strategy", "steps", "time", "faults", "latency", "hosts", "with",
	};

	fprintf(stderr, "usched-run: %s: usched-run --sim", why);
	if (value)
		put_word(option, value);
	fputs(conf.c_leaks ? " --leaks" : "", stderr);
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
		const char *given = value_of(more[i]);
		char *lines = given ? strdup(given) : NULL, *line;

		while ((line = strsep(&lines, "\n")))          /* --with has several */
			put_word(more[i], line);
	}
	for (char **word = program; *word; word++)
		put_word("", *word);
	fputc('\n', stderr);
}

static void tell_failure(const struct job *j)
{
	static const char can_draw[] = "command -v uthreads >/dev/null && python3 -c "
		"'from importlib.util import *; exit(not find_spec(\"matplotlib\"))'";
	const struct sim_strategy *y = conf.c_strategy;
	const struct sim_outcome *u = j->j_outcome;
	uint64_t before = y == &sim__all ? passed : j->j_seed - conf.c_seeds[0];
	const char *file = value_of("replay");
	char text[64];

	say("seed %" PRIu64 ": %s, after %" PRIu64 " step%s and %" PRIu64
	    " run%s that passed", j->j_seed, u->u_message, MANY(u->u_steps),
	    MANY(before));
	jobs[0].j_outcome->u_seed = u->u_seed;
	if (value_of("shrink") && shrink(u)) {
		show_output(&jobs[0]);
		write_choices();
		snprintf(text, sizeof text, "%zu choice%s of %" PRIu64 " make%s it fail",
			 MANY(left.u_noted), u->u_noted, left.u_noted == 1 ? "s" : "");
		say_command(text, "replay", value_of("shrink"));
	} else {
		show_output(j);
	}
	if (!sim__run.r_trace && !y->y_prepare && system(can_draw) == 0)
		say("a picture: add --trace run.csv; uthreads draw run.csv run.svg");
	snprintf(text, sizeof text, y == &sim__depth ? "%" PRIu64 "-%" PRIu64
		 : "%" PRIu64, y == &sim__depth ? conf.c_seeds[0] : j->j_seed, j->j_seed);
	say_command("again", file ? "replay" : "seeds",
		    file ? file : y == &sim__all ? NULL : text);
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

/* Called when a run has passed. Begins the second one of its seed, or adds it up. */
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
	*(j->j_outcome->u_end == SIM_REDUNDANT ? &redundant : &passed) += 1;
	steps += j->j_outcome->u_steps;
	all_hashes ^= sim__hash(hash, j->j_seed);     /* runs may end in any order */
	if (conf.c_strategy->y_passed && !conf.c_strategy->y_passed(j->j_outcome))
		conf.c_seeds[1] = 0;
}

/* Makes the first runs, and the profile. Only the run in order has to pass. */
static void learn(void)
{
	struct sim_profile *first = sim__share(sizeof *first);
	struct job *const j = &jobs[0];

	sim__run.r_profile = first;
	sim__run.r_learns = true;
	for (int i = 0; i == 0 || (i < LEARNS && sim__traced && !j->j_wrong); i++) {
		j->j_outcome->u_seed = (uint64_t)i;
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
	sim__run.r_profile = &sim__profile;
	sim__run.r_learns = false;
}

/*
 * Runs all seeds. After a failure no more runs begin; those that have begun go on, since
 * a failure under a lower seed is reported instead.
 */
static void run_seeds(void)
{
	const struct sim_strategy *y = conf.c_strategy;
	uint64_t seed = conf.c_seeds[0];
	struct job *failed = NULL, *j = jobs;
	unsigned running = 0;

	for (;;) {
		while (!failed && running < conf.c_jobs && seed <= conf.c_seeds[1]) {
			for (j = jobs + 1; j->j_process; )
				j++;
			j->j_seed = y == &sim__all ? 0 : seed;
			j->j_again = false;
			j->j_outcome->u_seed = y->y_recall ? y->y_recall(seed)
				: j->j_seed;
			begin_run(j, y);
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
	if (y == &sim__all)
		say("all orders passed: %" PRIu64 ", and %" PRIu64
		    " redundant beginning%s", passed, MANY(redundant));
	else
		say("%" PRIu64 " run%s passed, %" PRIu64 " step%s, hash %016" PRIx64,
		    MANY(passed), MANY(steps), all_hashes);
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
	struct text *t;

	for (unsigned i = 0; i <= conf.c_jobs; i++)
		make_job(&jobs[i]);
	if (value_of("trace")) {
		t = sim__run.r_trace = sim__share(sizeof *t + TRACE + LINE + SIM_MESSAGE);
		*t = (struct text){ .t_bytes = (char *)(t + 1), .t_room = TRACE,
				    .t_fd = -1 };
	}
	if (conf.c_strategy->y_prepare)
		conf.c_strategy->y_prepare();
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
