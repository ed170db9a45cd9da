/* SPDX-License-Identifier: MIT */
/*
 * enter.c: calls of POSIX as operations. libusched-sim exports
 * the functions of uposix_names.h through posix/x86_64.S or posix/aarch64.S. While
 * sim__enters is set, each function there first calls sim__enter(). A call that a
 * simulation cannot repeat is an escape, and fails the run, unless USCHED_SIM_ESCAPES=1.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

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
 * Tells which operation a call is. c_names has the names of the functions, each with a
 * comma on both sides. If the functions are escapes, c_instead says what to use in their
 * place. A function in no row of `calls' is treated like the functions of the first row.
 */
struct call {
	unsigned char c_object, c_kind, c_how;
	const char   *c_instead;        /* NULL: the functions are no escapes */
	const char   *c_names;
};

#define INSTEAD(with, names) { ANY, SIM_WRITES, 0, with, names }

static const struct call calls[] = {
	{ ARGUMENT, SIM_WRITES, 0, NULL, "" },
	{ NONE, SIM_NOTHING, 0, NULL,
	  ",pthread_self,pthread_equal,pthread_create,thrd_create,"
	  "pthread_key_create,pthread_key_delete,pthread_getspecific,"
	  "pthread_setspecific,pthread_exit,thrd_exit,pthread_setname_np,"
	  "pthread_getname_np,pthread_getattr_np,pthread_getschedparam,"
	  "pthread_setschedparam,pthread_setschedprio,pthread_getaffinity_np,"
	  "pthread_setaffinity_np,pthread_getcpuclockid,pthread_testcancel,"
	  "pthread_setcancelstate,pthread_setcanceltype,__pthread_register_cancel,"
	  "__pthread_unregister_cancel,__pthread_register_cancel_defer,"
	  "__pthread_unregister_cancel_restore,__pthread_unwind_next,"
	  "__cxa_thread_atexit_impl,"
	  "pthread_sigmask,sigprocmask,pthread_mutex_init,"
	  "pthread_cond_init,pthread_rwlock_init,sem_init,pthread_barrier_init,"
	  "mtx_init,cnd_init,pthread_mutex_getprioceiling,"
	  "pthread_mutex_setprioceiling,thrd_current,thrd_equal,tss_create,"
	  "tss_delete,tss_get,tss_set,fileno,fileno_unlocked,clock_gettime,"
	  "gettimeofday,time,timespec_get,clock,getrusage,times,getrandom,getentropy,"
	  "setrlimit,"
	  "arc4random,arc4random_buf,arc4random_uniform,getpid,getppid,gettid,"
	  "getcwd,prctl,_exit,_Exit,setsockopt,"
	  "memcpy,memmove,memset,memcmp,strlen,strchr,strrchr,strcmp,strncmp,strcpy,"
	  "strncpy,strcat,strdup,__cxa_guard_release," },
	{ ARGUMENT, SIM_WRITES, SIM_LOCKS, NULL, ",pthread_mutex_lock,mtx_lock," },
	{ ARGUMENT, SIM_WRITES, SIM_UNLOCKS, NULL,
	  ",pthread_mutex_unlock,pthread_rwlock_unlock,pthread_spin_unlock,mtx_unlock," },
	{ ARGUMENT, SIM_READS, 0, NULL,
	  ",sem_getvalue,fstat,getsockname,getpeername,getsockopt," },
	{ ANY, SIM_NOTHING, SIM_YIELDS, NULL,
	  ",sched_yield,pthread_yield,thrd_yield," },
	{ ANY, SIM_NOTHING, 0, NULL,
	  ",sleep,usleep,nanosleep,clock_nanosleep,thrd_sleep," },
	{ ANY, SIM_WRITES, 0, NULL,
	  ",pthread_cond_wait,pthread_cond_timedwait,pthread_cond_clockwait,"
	  "cnd_wait,cnd_timedwait,pause,sigpending,sigsuspend,raise,poll,ppoll,select,"
	  "pselect,epoll_wait,epoll_pwait,epoll_pwait2,wait,wait3,waitpid,waitid,wait4,"
	  "fflush,fcloseall,getchar,scanf,vscanf,__isoc99_scanf,__isoc23_scanf," },
	{ NUMBER, SIM_WRITES, 0, NULL, ",syscall," },
	{ OUTPUT, SIM_WRITES, 0, NULL,
	  ",printf,vprintf,puts,putchar,__printf_chk,__vprintf_chk,fputs,fputc,"
	  "putc,fwrite," },
	{ FILES, SIM_WRITES, 0, NULL,
	  ",open,open64,openat,openat64,creat,creat64,__open_2,__open64_2,"
	  "__openat_2,__openat64_2,fopen,mkstemp,mkostemp,mkdtemp,rename,renameat,"
	  "renameat2,unlink,unlinkat,remove,mkdir,mkdirat,rmdir,chmod,fchmod,"
	  "fchmodat,chown,lchown,fchown,fchownat,utime,utimes,utimensat,futimens," },
	{ FILES, SIM_READS, 0, NULL,
	  ",chdir,fchdir,stat,lstat,fstatat,statx,access,faccessat,opendir,"
	  "fdopendir,rewinddir,scandir," },
	INSTEAD("threads, or hosts: sim_host_start()",
	  ",fork,vfork,clone,daemon,system,popen,posix_spawn,posix_spawnp,execl,"
	  "execlp,execle,execv,execve,execvp,execvpe,fexecve,ptrace,"),
	INSTEAD("kill(), pthread_kill(), or raise()",
	  ",killpg,sigqueue,kill() of another process,"),
	INSTEAD("a thread that sleeps, or timerfd_create()",
	  ",timer_create,setitimer() for processor time,"),
	INSTEAD("the same without a name, in this process",
	  ",shm_open,sem_open,mq_open,shmat,msgrcv,msgsnd,semop,semtimedop,"),
	INSTEAD("a call in a thread: aio_read() is made by threads of libc",
	  ",aio_read,aio_read64,aio_write,aio_write64,lio_listio,lio_listio64,"),
	INSTEAD("pipe(), or socketpair()",
	  ",mkfifo,mknod,open() of a real FIFO, socket or device,"),
	INSTEAD("a copy of the file", ",link,linkat,symlink,symlinkat,"),
	INSTEAD("opendir()", ",glob,ftw,nftw,fts_open,inotify_init,inotify_init1,"),
	INSTEAD("open() and ftruncate()", ",fallocate,truncate,"),
	INSTEAD("mkstemp(), and unlink()", ",tmpfile,mkstemps,"),
	INSTEAD("fclose() and fopen()", ",freopen,freopen64,"),
	INSTEAD("fsync()", ",sync,syncfs,"),
	INSTEAD("read() and write()", ",splice,tee,vmsplice,"),
	INSTEAD("recvmsg()", ",recvmmsg,"),
	INSTEAD("close()", ",closefrom,close_range,"),
	INSTEAD("mkdir() and rename() of each file", ",rename() of a directory,"),
	INSTEAD("the function of libc for it", ",syscall() of this number,"),
};

/*
 * System calls that are escapes if the program makes them by syscall().
 * posix/uposix_call.c lists the system calls that are simulated instead.
 */
static const long numbers[] = {
	SYS_clone, SYS_execve, SYS_kill, SYS_tgkill, SYS_timer_create, SYS_setitimer,
	SYS_ptrace, SYS_shmat, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_renameat2,
	SYS_unlinkat, SYS_mkdirat, SYS_truncate, SYS_getdents64, SYS_fallocate,
	SYS_gettimeofday, SYS_getrusage, SYS_times,
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

enum { NAMES = sizeof names / sizeof names[0], CALLS = sizeof calls / sizeof calls[0] };

static const struct call *call_of[NAMES];
static bool is_object[NAMES];           /* the first argument of names[i] is a mutex or
					   the like */

/*
 * What a thread leaves for others when it calls names[i], and takes from them when the
 * call has returned: sim/access.c.
 */
enum { LEAVES = 1, TAKES = 2, MESSAGE = 4, JOINS = 8, RELOCKS = 16 };

static unsigned char orders[NAMES];

unsigned char sim__enters;

static bool is_one(const char *name, const char *const *begins)
{
	for (; *begins; begins++)
		if (strncmp(name, *begins, strlen(*begins)) == 0)
			return true;
	return false;
}

static unsigned char orders_of(const char *name, bool object)
{
	static const char *const sends[] = { "write", "send", "connect", "shutdown",
		"close", "kill", "raise", "eventfd_write", NULL };
	static const char *const receives[] = { "read", "recv", "accept", "poll", "ppoll",
		"select", "pselect", "epoll_", "eventfd_read", "sig", NULL };
	const bool takes = strstr(name, "wait") || strstr(name, "once")
		|| (strstr(name, "lock") && !strstr(name, "unlock"));

	if (strstr(name, "_join") || strstr(name, "join_np"))
		return JOINS;
	if (strstr(name, "barrier_wait"))
		return LEAVES | TAKES;
	if ((object && takes) || strcmp(name, "call_once") == 0)
		return strstr(name, "cond") || strstr(name, "cnd") ? TAKES | RELOCKS
			: TAKES;
	return object ? LEAVES : is_one(name, sends) ? LEAVES | MESSAGE
		: is_one(name, receives) ? TAKES | MESSAGE : 0;
}

static const struct call *find(const char *name)
{
	char with_commas[64];

	snprintf(with_commas, sizeof with_commas, ",%s,", name);
	for (size_t i = 1; i < CALLS; i++)
		if (strstr(calls[i].c_names, with_commas))
			return &calls[i];
	return &calls[0];
}

void sim__find_calls(void)
{
	static const char *const begins[] = { "pthread_", "sem_", "mtx_", "cnd_", NULL };

	for (size_t i = 0; i < NAMES; i++) {
		call_of[i] = find(names[i]);
		is_object[i] = is_one(names[i], begins);
		orders[i] = orders_of(names[i], is_object[i]);
	}
}

void sim__escape(const char *name)
{
	const char *given = outside_setting("USCHED_SIM_ESCAPES");

	if (sim__self() && !(given && strcmp(given, "1") == 0))
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
	sim__settle(t);
	if (how & LEAVES)
		sim__leave_in(object, t);
	if (how & RELOCKS)
		sim__leave_in(mutex, t);
	if (how & (TAKES | JOINS))
		t->t_from[0] = object;
	if (how & RELOCKS)
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
	const struct call *c = call_of[i];
	struct sim_op op = { c->c_object, place, 0, names[i], c->c_kind, c->c_how };
	struct uposix_thread *me = sim__self() ? uposix__me() : NULL;

	if (sim__others_wait)
		sim__may_begin_others(names[i]);
	if (c->c_object == NONE)
		return;
	if (c->c_object == ARGUMENT)
		op.o_object = argument;
	if (c->c_object == NUMBER) {
		op.o_object = ANY;
		look_at_number(argument);
	}
	if (c->c_instead)
		sim__escape(names[i]);
	op.o_key = sim__key(names[i], is_object[i] ? op.o_object : 0, place);
	if (sim__self())
		sim__self()->t_ordered = false;
	if (sim__run.r_learns)
		sim__uses(op.o_object, op.o_kind, 0);
	sim__step(op);
	if (me)
		uposix__handle(me);
	if (sim__traced && orders[i] && sim__self())
		order(sim__self(), orders[i], argument, second);
}
