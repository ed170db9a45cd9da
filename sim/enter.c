/* SPDX-License-Identifier: MIT */
/*
 * enter.c: calls of POSIX as operations. libusched-sim exports
 * the functions of uposix_names.h through posix/x86_64.S or posix/aarch64.S. While
 * sim__enters is set, each function there first calls sim__enter(). A call that a
 * simulation cannot repeat is an escape, and fails the run, unless USCHED_SIM_ESCAPES=1.
 */
#include <fnmatch.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../arch/arch.h"
#include "../posix/uposix_set.h"
#include "../src/core/outside.h"
#include "host.h"

/* The object that a call uses. */
enum {
	ANY,                            /* 0: every object */
	OUTPUT,                         /* the standard output */
	FILES,                          /* the names of files */
	ARGUMENT,                       /* the first argument of the call */
	NUMBER,                         /* every object; the first argument is the number
					   of a system call */
	NONE,                           /* no object: other threads cannot notice the
					   call, and the call is no step */
};

/*
 * Tells which operation a call is. c_names has the names of the functions, as a pattern
 * of fnmatch(3). If the functions are escapes, c_instead says what to use in their place.
 * A function is in the first row that matches.
 */
struct call {
	unsigned char c_object, c_kind, c_how;
	const char   *c_instead;        /* NULL: the functions are no escapes */
	const char   *c_names;
};

#define CALLS(object, kind, how, names) { object, kind, how, NULL, "@(" names ")" }
#define INSTEAD(with, names) { ANY, SIM_WRITES, 0, with, "@(" names ")" }

static const struct call calls[] = {
	CALLS(NONE, SIM_NOTHING, 0,
	      "pthread_@(self|equal|create|exit|sigmask|key_*|get*|set*)|"
	      "pthread_mutex_?etprioceiling|@(pthread_*|sem|mtx|cnd)_init|"
	      "thrd_@(create|exit|current|equal)|tss_*|__pthread_*|__cxa_*|sigprocmask|"
	      "fileno*|clock|clock_get*|gettimeofday|time|times|timespec_get|"
	      "getrusage|getrandom|getentropy|arc4random*|getpid|getppid|gettid|getcwd|"
	      "setrlimit|prctl|sched_?et*|?etpriority|_exit|_Exit|setsockopt|mem*|"
	      "str*"),
	CALLS(ARGUMENT, SIM_WRITES, SIM_LOCKS, "pthread_mutex_lock|mtx_lock"),
	CALLS(ARGUMENT, SIM_WRITES, SIM_UNLOCKS, "@(pthread_*|mtx)_unlock"),
	CALLS(ARGUMENT, SIM_READS, 0,
	      "sem_getvalue|fstat|getsockname|getpeername|getsockopt"),
	CALLS(ANY, SIM_NOTHING, SIM_YIELDS,
	      "@(sched|pthread|thrd)_yield|pthread_testcancel"),
	CALLS(ANY, SIM_NOTHING, 0, "sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep"),
	CALLS(ANY, SIM_WRITES, 0,
	      "@(pthread_cond|cnd)_*wait|pause|sigpending|sigsuspend|raise|"
	      "?(p)poll|__?(p)poll_chk|?(p)select|epoll_*wait*|wait*|fflush|fcloseall|"
	      "getchar|?(v|__isoc??_)scanf"),
	CALLS(NUMBER, SIM_WRITES, 0, "syscall"),
	CALLS(OUTPUT, SIM_WRITES, 0,
	      "?(v)printf|__?(v)printf_chk|puts|putchar|putc|fputs|fputc|fwrite"),
	CALLS(FILES, SIM_WRITES, 0,
	      "?(__)open?(at)?(64)?(_2)|creat?(64)|fopen|mk?(o)stemp|mkdtemp|"
	      "rename?(at|at2)|?(un)link?(at)|remove|mkdir?(at)|rmdir|?(f)chmod*|*chown*|"
	      "utime*|futimens|truncate|shm_*"),
	CALLS(FILES, SIM_READS, 0,
	      "?(f)chdir|stat|lstat|fstatat|statx|?(f)access*|?(fd)opendir|rewinddir|"
	      "scandir"),
	INSTEAD("threads, or hosts: sim_host_start(); in place of a script, its program",
		"fork|vfork|clone|daemon|system|popen|posix_spawn*|ptrace"),
	INSTEAD("the program itself: usched-run --sim PROGRAM", "exec*|fexecve"),
	INSTEAD("kill(), pthread_kill(), or raise()",
		"killpg|sigqueue|kill* of another process"),
	INSTEAD("a thread that sleeps, or timerfd_create()",
		"setitimer* for processor time"),
	INSTEAD("the same without a name, in this process",
		"sem_open|mq_open|shmat|msgrcv|msgsnd|sem?(timed)op"),
	INSTEAD("a call in a thread: aio_read() is made by threads of libc",
		"@(aio_read|aio_write|lio_listio)?(64)"),
	INSTEAD("pipe(), or socketpair()",
		"mkfifo|mknod|open* of a real FIFO, socket or device"),
	INSTEAD("a copy of the file", "symlink?(at)"),
	INSTEAD("opendir()", "ftw|nftw|fts_open|inotify_init?(1)"),
	INSTEAD("mkstemp(), and unlink()", "tmpfile|mkstemps"),
	INSTEAD("fsync()", "sync?(fs)"),
	INSTEAD("read() and write()", "splice|tee|vmsplice"),
	INSTEAD("recvmsg()", "recvmmsg"),
	INSTEAD("close()", "closefrom|close_range"),
	INSTEAD("--faults clock", "clock_settime|settimeofday|?(clock_)adjtime?(x)"),
	INSTEAD("sigprocmask(), or sigsuspend()", "sighold|sigrelse|sigpause"),
	INSTEAD("the function of libc for it", "syscall* of this number"),
	CALLS(ARGUMENT, SIM_WRITES, 0, "*"),
};

/* System calls that are escapes if the program makes them by syscall().
   posix/uposix_call.c lists the system calls that are simulated instead. */
static const long numbers[] = {
	SYS_clone, SYS_execve, SYS_kill, SYS_tgkill, SYS_timer_create, SYS_setitimer,
	SYS_ptrace, SYS_shmat, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_renameat2,
	SYS_unlinkat, SYS_mkdirat, SYS_truncate, SYS_getdents64,
	SYS_gettimeofday, SYS_getrusage, SYS_times,
	SYS_clock_settime, SYS_settimeofday, SYS_adjtimex, SYS_clock_adjtime,
	SYS_getppid, SYS_splice, SYS_tee, SYS_vmsplice, SYS_recvmmsg,
#ifdef SYS_fork
	SYS_fork, SYS_vfork, SYS_alarm, SYS_time, SYS_rename, SYS_unlink, SYS_mkdir,
	SYS_rmdir, SYS_link, SYS_symlink, SYS_stat, SYS_lstat, SYS_access,
#endif
};

static const char *const names[] = {
#define NAME(name) #name,
#include "../posix/uposix_names.h"
};

enum { NAMES = sizeof names / sizeof names[0] };

/* What a thread leaves for others when it makes a call, and takes from them when the call
   has returned: sim/access.c. A call without a row leaves and takes nothing. */
enum { LEAVES = 1, TAKES = 2, MESSAGE = 4, JOINS = 8, RELOCKS = 16, SERVES = 32,
       FUTEX = 64 };

#define OBJECTS "@(pthread|sem|mtx|cnd)_"

static const struct { unsigned char o_how; const char *o_names; } orders[] = {
	{ JOINS, "*join*" },
	{ LEAVES | TAKES, "*barrier_wait" },
	{ LEAVES | TAKES | FUTEX, "syscall" },
	{ TAKES | RELOCKS, "@(pthread_cond|cnd)_*wait" },
	{ LEAVES, OBJECTS "*unlock" },
	{ TAKES, "@(" OBJECTS "*@(wait|once|lock)*|call_once)" },
	{ LEAVES, OBJECTS "*" },
	{ LEAVES | MESSAGE,
	  "@(write|send|connect|shutdown|close|kill|raise|eventfd_write)*" },
	{ TAKES | MESSAGE | SERVES,
	  "?(__)@(recv|accept|?(p)poll|?(p)select|epoll_@(p|wait)|sigwait)*" },
	{ TAKES | MESSAGE, "@(?(__)read|epoll_|eventfd_read|sig)*" },
	{ 0, "*" },
};

static struct {
	const struct call *k_call;
	bool               k_is_object;         /* the first argument is a mutex or the
						   like */
	unsigned char      k_order;
} known[NAMES];

unsigned char sim__enters;

static bool matches(const char *pattern, const char *name)
{
	return fnmatch(pattern, name, FNM_EXTMATCH) == 0;
}

static const struct call *find(const char *name)
{
	const struct call *c = calls;

	while (!matches(c->c_names, name))
		c++;
	return c;
}

void sim__find_calls(void)
{
	for (size_t i = 0, o = 0; i < NAMES; i++, o = 0) {
		while (!matches(orders[o].o_names, names[i]))
			o++;
		known[i].k_call = find(names[i]);
		known[i].k_is_object = matches(OBJECTS "*", names[i]);
		known[i].k_order = orders[o].o_how;
	}
}

static bool lets_pass(void)
{
	const char *given = outside_setting("USCHED_SIM_ESCAPES");

	return given && strcmp(given, "1") == 0;
}

void sim__escape(const char *name)
{
	if (sim__self() && !lets_pass())
		sim_fail("%s%s cannot be simulated; use %s; USCHED_SIM_ESCAPES=1 lets "
			 "such calls pass", name, strchr(name, '(') ? "" : "()",
			 find(name)->c_instead);
}

static void look_at_number(uintptr_t number)
{
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if ((uintptr_t)numbers[i] == number)
			sim__escape("syscall() of this number");
}

/* A thread is about to make a call: see LEAVES and the like. */
static void order(struct sim_thread *t, unsigned char how, uintptr_t object,
		  uintptr_t mutex)
{
	if (how & (MESSAGE | JOINS))
		object = how & JOINS ? SIM_AT_END : SIM_BY_MESSAGE;
	if (how & FUTEX)                        /* the object of access_atomic() */
		object = object == SYS_futex ? mutex / sizeof(uint32_t) : 0;
	mutex = how & RELOCKS ? mutex : 0;
	sim__settle(t);
	sim__leave_in(how & LEAVES ? object : 0, t);
	sim__leave_in(mutex, t);
	t->t_from[0] = how & (TAKES | JOINS) ? object : 0;
	t->t_from[1] = mutex;
}

/*
 * Called before a function of POSIX: makes a step, and runs handlers of signals. `offset'
 * is the offset of names[i] in a table of pointers, `argument' and `second' are the
 * function's first arguments, and `place' is the return address.
 */
SIM_PRIVATE void sim__enter(size_t offset, uintptr_t argument, uintptr_t place,
			    uintptr_t second);

void sim__enter(size_t offset, uintptr_t argument, uintptr_t place, uintptr_t second)
{
	size_t i = offset / sizeof(void *);
	const struct call *c = known[i].k_call;
	struct sim_op op = { c->c_object, place, 0, names[i], c->c_kind, c->c_how };
	struct sim_thread *self = sim__self();
	struct uposix_thread *me = self ? uposix__me() : NULL;

	if (sim__several && known[i].k_order & SERVES)
		sim__may_serve();
	if (c->c_object == NONE || uposix__in_allocator((const void *)place))
		return;
	if (c->c_object == ARGUMENT)
		op.o_object = argument;
	if (c->c_object == NUMBER)
		op.o_object = ANY, look_at_number(argument);
	if (c->c_instead)
		sim__escape(names[i]);
	op.o_key = sim__key(names[i], known[i].k_is_object ? op.o_object : 0, place);
	if (!self)
		return;
	self->t_ordered = false;
	sim__step(op);
	if (me)
		uposix__handle(me);
	if (sim__traced && known[i].k_order)
		order(self, known[i].k_order, argument, second);
}

/* ---- System calls by instructions ---- */

/*
 * Handles SIGSYS: the program, or a library such as OpenMP's, makes a system call by an
 * instruction of its own. The thread calls syscall() in place of that.
 */
static void call(int unused, siginfo_t *info, void *context)
{
	const unsigned char *at = sim__call_at;
	uintptr_t *words = context;
	const int before = errno;
	size_t i = 0;
	long rc;

	(void)unused;
	sim__run.r_profile->p_calls = true;
	while (strcmp(names[i], "syscall") != 0)
		i++;
	sim__enter(i * sizeof(void *), (uintptr_t)info->si_syscall,
		   usched__interrupted(context), words[at[0]]);
	rc = uposix_syscall(info->si_syscall, words[at[0]], words[at[1]], words[at[2]],
			    words[at[3]], words[at[4]], words[at[5]]);
	words[at[6]] = (uintptr_t)(rc < 0 ? -errno : rc);
	errno = before;
}

enum { FILTER = 64 };                   /* instructions; each part of libc has four */

static struct sock_filter filter[FILTER];
static struct sock_fprog program = { .filter = filter };

static void add(unsigned what, uintptr_t value, unsigned skip)
{
	filter[program.len++] = (struct sock_filter)
		BPF_JUMP((unsigned short)what, (uint32_t)value, (unsigned char)skip, 0);
}

/*
 * Allows the system calls of libc and the like. The lower halves of addresses tell these
 * objects from all others.
 */
static int allow(struct dl_phdr_info *o, size_t unused, void *unused_too)
{
	static const char *const parts =
		"*@(/libc.|/libc-|/libpthread|/librt|/ld-|/libusched-|linux-vdso)*";
	const ElfW(Phdr) *p = o->dlpi_phdr, *end = p + o->dlpi_phnum;

	(void)unused, (void)unused_too;
	for (; p < end && program.len + 4 < FILTER && matches(parts, o->dlpi_name); p++) {
		if (!(p->p_flags & PF_X))
			continue;
		add(BPF_LD | BPF_W | BPF_ABS,
		    offsetof(struct seccomp_data, instruction_pointer), 0);
		add(BPF_ALU | BPF_SUB | BPF_K, o->dlpi_addr + p->p_vaddr, 0);
		add(BPF_JMP | BPF_JGE | BPF_K, p->p_memsz, 1);
		add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
	}
	return 0;
}

void sim__catch_calls(void)
{
	const struct sigaction on_call = {
		.sa_sigaction = call, .sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	dl_iterate_phdr(allow, NULL);
	add(BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0);
	sigaction(SIGSYS, &on_call, NULL);
	if (!lets_pass() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
