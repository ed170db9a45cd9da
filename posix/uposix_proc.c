/* SPDX-License-Identifier: MIT */
/*
 * uposix_proc.c: starts processes, and waits for their end. A thread waits for one
 * process by a pidfd; for several processes, a native thread waits.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct waited {
	struct uposix_job w_job;
	pid_t             w_pid;
	int               w_status;
	int               w_options;
	struct rusage     w_usage;
};

/*
 * Waits for the end of a process, and then returns 0. If the system has no pidfds,
 * returns -1 at once, and the caller makes a native thread wait.
 */
static int await_process(pid_t pid)
{
	CLEANUP(uposix__close_it)
	int fd = uevents__own((int)syscall(SYS_pidfd_open, pid, 0));
	int rc = -1;

	if (fd >= 0)
		UPOSIX_WAIT(rc, true, unet_wait(fd, POLLIN, USCHED_NEVER));
	return rc;
}

/* A command that a native thread starts for a thread. c_mask is the thread's mask. */
struct command {
	struct uposix_job c_job;
	char             *c_text;
	const char       *c_mode;       /* mode of popen(), or NULL for system() */
	FILE             *c_file;
	uint64_t          c_mask;
};

static long wait_apart(void *job)
{
	struct waited *w = job;

	return wait4(w->w_pid, &w->w_status, w->w_options, &w->w_usage);
}

pid_t uposix_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	struct waited w = { .w_job.j_call = wait_apart, .w_pid = pid,
			    .w_options = options };
	pid_t found;
	int rc;

	if (options & WNOHANG || !uposix__in_thread())
		return uposix__pace(), wait4(pid, status, options, usage);
	if (!uposix__begins(true))
		return -1;
	found = wait4(pid, status, options | WNOHANG, usage);
	if (found == 0 && pid > 0 && !(options & (WUNTRACED | WCONTINUED))) {
		rc = await_process(pid);
		if (rc == -EINTR)
			return (pid_t)uposix__answer(rc);
		found = wait4(pid, status, options | WNOHANG, usage);
	}
	if (found != 0)
		return found;
	uposix__apart(&w.w_job, sizeof w, APART_ANY);
	if (w.w_job.j_result < 0)
		return -1;
	if (status)
		*status = w.w_status;
	if (usage)
		*usage = w.w_usage;
	return (pid_t)w.w_job.j_result;
}

pid_t uposix_waitpid(pid_t pid, int *status, int options)
{
	return uposix_wait4(pid, status, options, NULL);
}

pid_t uposix_wait(int *status)
{
	return uposix_wait4(-1, status, 0, NULL);
}

pid_t uposix_wait3(int *status, int options, struct rusage *usage)
{
	return uposix_wait4(-1, status, options, usage);
}

struct waited_id {
	struct uposix_job i_job;
	idtype_t          i_type;
	id_t              i_id;
	int               i_options;
	siginfo_t         i_info;
};

static long wait_id_apart(void *job)
{
	struct waited_id *i = job;

	return waitid(i->i_type, i->i_id, &i->i_info, i->i_options);
}

/* Returns true if the wait is over, by an error or the end of a child. */
static bool try_wait_id(struct waited_id *i)
{
	i->i_info.si_pid = 0;
	i->i_job.j_result = waitid(i->i_type, i->i_id, &i->i_info,
				   i->i_options | WNOHANG);
	return i->i_job.j_result != 0 || i->i_info.si_pid != 0;
}

int uposix_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	struct waited_id i = { .i_job.j_call = wait_id_apart, .i_type = type,
			       .i_id = id, .i_options = options };
	int rc = 0;

	if (options & WNOHANG || !uposix__in_thread())
		return uposix__pace(), waitid(type, id, info, options);
	if (!uposix__begins(true))
		return -1;
	if (!try_wait_id(&i)) {
		if (type == P_PID && !(options & (WSTOPPED | WCONTINUED)))
			rc = await_process((pid_t)id);
		if (rc == -EINTR)
			return (int)uposix__answer(rc);
		if (!try_wait_id(&i))
			uposix__apart(&i.i_job, sizeof i, APART_ANY);
	}
	if (i.i_job.j_result)
		return -1;
	if (info)
		*info = i.i_info;
	return 0;
}

static long run_command(void *job)
{
	struct command *c = job;
	uint64_t mask = uposix__mask();
	int rc = 0;

	uposix__set_native_mask(c->c_mask);
	if (c->c_mode)
		c->c_file = popen(c->c_text, c->c_mode);
	else
		rc = system(c->c_text);
	uposix__set_native_mask(mask);
	return rc;
}

/* If the thread is cancelled, libc kills the command and waits for its end. */
int uposix_system(const char *command)
{
	CLEANUP(uposix__free_it) char *text = NULL;
	struct command c = {
		.c_job = { .j_call = run_command, .j_result = -1 },
		.c_mask = uposix__mask(),
	};

	if (!command || !uposix__in_thread())
		return system(command);
	uposix__point();
	c.c_text = text = strdup(command);
	if (text)
		uposix__apart(&c.c_job, sizeof c, APART_CANCEL);
	return (int)c.c_job.j_result;
}

FILE *uposix_popen(const char *command, const char *mode)
{
	struct command c = { .c_job.j_call = run_command, .c_mode = mode,
			     .c_mask = uposix__mask() };

	if (!uposix__in_thread())
		return popen(command, mode);
	c.c_text = strdup(command);
	if (c.c_text)
		uposix__apart(&c.c_job, sizeof c, APART_NOTHING);
	free(c.c_text);
	return c.c_file;
}

typedef __typeof__(posix_spawn) spawn_function;

static int spawn(spawn_function *call, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *given, char *const argv[], char *const envp[])
{
	posix_spawnattr_t attr;
	short flags = 0;
	sigset_t set;

	if (!uposix__in_thread())
		return call(pid, path, actions, given, argv, envp);
	if (given)
		attr = *given;
	else
		posix_spawnattr_init(&attr);
	posix_spawnattr_getflags(&attr, &flags);
	if (!(flags & POSIX_SPAWN_SETSIGMASK)) {
		uposix__set_of(uposix__mask(), &set);
		posix_spawnattr_setsigmask(&attr, &set);
		posix_spawnattr_setflags(&attr, (short)(flags | POSIX_SPAWN_SETSIGMASK));
	}
	return call(pid, path, actions, &attr, argv, envp);
}

int uposix_posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const envp[])
{
	return spawn(posix_spawn, pid, path, actions, attr, argv, envp);
}

int uposix_posix_spawnp(pid_t *pid, const char *file,
			const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const argv[],
			char *const envp[])
{
	return spawn(posix_spawnp, pid, file, actions, attr, argv, envp);
}

static long close_command(void *job)
{
	return pclose(((struct command *)job)->c_file);
}

int uposix_pclose(FILE *file)
{
	struct command c = { .c_job.j_call = close_command, .c_file = file };

	uposix__forget(fileno(file));
	uposix__end_stream(file);
	if (!uposix__in_thread())
		return pclose(file);
	uposix__apart(&c.c_job, sizeof c, APART_NOTHING);
	return (int)c.c_job.j_result;
}
