/* SPDX-License-Identifier: MIT */
/*
 * escape.c: calls that a simulation cannot repeat, and what to use instead. The first of
 * them fails the run, unless USCHED_SIM_ESCAPES=1.
 */
#include <sys/syscall.h>

#include "host.h"

/* Each name has a comma on both sides. */
static const struct { const char *e_instead, *e_names; } escapes[] = {
	{ "threads, or hosts: sim_host_start()",
	  ",fork,vfork,clone,daemon,system,popen,posix_spawn,posix_spawnp,execl,execlp,"
	  "execle,execv,execve,execvp,execvpe,fexecve,ptrace," },
	{ "kill(), pthread_kill(), or raise()",
	  ",killpg,sigqueue,kill() of another process," },
	{ "a thread that sleeps, or timerfd_create()",
	  ",alarm,ualarm,setitimer,timer_create," },
	{ "the same without a name, in this process",
	  ",shm_open,sem_open,mq_open,shmat,msgrcv,msgsnd,semop,semtimedop," },
	{ "a call in a thread: aio_read() is made by threads of libc",
	  ",aio_read,aio_read64,aio_write,aio_write64,lio_listio,lio_listio64," },
	{ "pipe(), or socketpair()",
	  ",mkfifo,mknod,open() of a real FIFO, socket or device," },
	{ "a copy of the file", ",link,linkat,symlink,symlinkat," },
	{ "a list of the names in a file",
	  ",opendir,fdopendir,scandir,scandir64,glob,glob64,ftw,ftw64,nftw,nftw64,"
	  "fts_open,inotify_init,inotify_init1," },
	{ "open() with the mode; files have no owner, and let all do all",
	  ",chmod,fchmod,fchmodat,chown,fchown,fchownat,utime,utimes,utimensat,"
	  "futimens," },
	{ "open() and ftruncate()",
	  ",fallocate,fallocate64,truncate,truncate64," },
	{ "names from the root",
	  ",fchdir,mkdirat,unlinkat,renameat,renameat2,fstatat,fstatat64,faccessat,"
	  "statx," },
	{ "open() with O_EXCL, and unlink()",
	  ",tmpfile,tmpfile64,mkstemp,mkstemp64,mkostemp,mkostemp64,mkstemps,mkdtemp," },
	{ "unlink() of its files; it stays", ",rmdir," },
	{ "fclose() and fopen()", ",freopen,freopen64," },
	{ "fsync()", ",sync,syncfs," },
	{ "clock()", ",times," }, { "close()", ",closefrom,close_range," },
	{ "getpid()", ",getppid," },
	{ "getrandom()", ",arc4random,arc4random_buf,arc4random_uniform," },
	{ "mkdir() and rename() of each file", ",rename() of a directory," },
	{ "the function of libc for it", ",syscall() of this number," },
};

/* Numbers of syscall(). posix/uposix_call.c knows others. */
static const long numbers[] = {
	SYS_clone, SYS_execve, SYS_kill, SYS_tgkill, SYS_timer_create, SYS_setitimer,
	SYS_ptrace, SYS_shmat, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_renameat2,
	SYS_unlinkat, SYS_mkdirat, SYS_truncate, SYS_getdents64, SYS_fallocate,
	SYS_gettimeofday, SYS_getppid,
#ifdef SYS_fork
	SYS_fork, SYS_vfork, SYS_alarm, SYS_time, SYS_rename, SYS_unlink, SYS_mkdir,
	SYS_rmdir, SYS_link, SYS_symlink, SYS_stat, SYS_lstat, SYS_access,
#endif
};

const char *sim__escapes(const char *name)
{
	char with_commas[64];

	snprintf(with_commas, sizeof with_commas, ",%s,", name);
	for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++)
		if (strstr(escapes[i].e_names, with_commas))
			return escapes[i].e_instead;
	return NULL;
}

void sim__escape(const char *name)
{
	const char *given = getenv("USCHED_SIM_ESCAPES");

	if (!sim__self() || (given && strcmp(given, "1") == 0))
		return;
	sim_fail("%s%s cannot be simulated; use %s; USCHED_SIM_ESCAPES=1 lets such calls "
		 "pass", name, strchr(name, '(') ? "" : "()", sim__escapes(name));
}

void sim__escape_call(long number)
{
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if (numbers[i] == number)
			sim__escape("syscall() of this number");
}
