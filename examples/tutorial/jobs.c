/* SPDX-License-Identifier: MIT */
/*
 * Jobs: step four of doc/tutorial.md. Each line of standard input is a command of the
 * shell. N of them run at a time, for at most so many SECONDS each; then a command is
 * killed, with all that it has started.
 *
 * Each job is a thread, in a scope. SIGINT and SIGTERM end the scope, and so the waits
 * of all jobs: these kill their commands, and end. It needs Linux 5.3, for pidfds.
 */
#define _GNU_SOURCE             /* pipe2(), syscall() */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rr.h"
#include "unet.h"

enum { OUTPUT = 4096 };         /* bytes of a command's output; the rest is dropped */

struct job {
	struct job *next;
	char       *command;
	size_t      size;
	char        output[OUTPUT];
};

static struct usync_sem room;   /* for so many more commands */
static struct usync_scope *all;
static struct job *jobs;
static int64_t limit;           /* ns, for a command */
static int signals;

/*
 * Starts a command that writes to a new pipe, in a process group of its own. It has no
 * signals blocked or ignored, though this program has. The pipe's end for reading, or an
 * error.
 */
static int start(char *command, pid_t *pid)
{
	char *argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t set;
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], 1);
	posix_spawn_file_actions_adddup2(&files, ends[1], 2);
	posix_spawnattr_init(&how);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&how, &set);
	sigfillset(&set);
	posix_spawnattr_setsigdefault(&how, &set);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
				 | POSIX_SPAWN_SETPGROUP);
	rc = posix_spawnp(pid, "sh", &files, &how, argv, environ);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (rc)
		close(ends[0]);
	return rc ? -rc : ends[0];
}

/* Until all that have the other end of the pipe have closed it. 0, or an error. */
static int collect(struct job *job, int pipe, int64_t deadline)
{
	char buffer[1024];
	ssize_t n;

	while ((n = unet_read(pipe, buffer, sizeof buffer, deadline)) > 0) {
		if ((size_t)n > OUTPUT - job->size)
			n = (ssize_t)(OUTPUT - job->size);
		memcpy(job->output + job->size, buffer, (size_t)n);
		job->size += (size_t)n;
	}
	return (int)n;
}

/*
 * Waits for the end of a child, unless rc is an error already; after an error kills its
 * process group. Reaps it in any case: until then no other process gets its number.
 * 0 and the status, or an error.
 */
static int reap(pid_t pid, int *status, int rc, int64_t deadline)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (rc == 0)
		rc = fd < 0 ? -errno : unet_wait(fd, POLLIN, deadline);
	if (rc) {
		kill(-pid, SIGKILL);
		ustack_shield(1);               /* a cancel does not end this wait */
		unet_wait(fd, POLLIN, USCHED_NEVER);
		ustack_shield(0);
	}
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;                               /* it has ended: this does not wait */
	unet_close(fd);
	return rc;
}

static int run(struct job *job, int *status)
{
	int64_t deadline = usync_after(limit);
	pid_t pid;
	int rc, pipe = start(job->command, &pid);

	if (pipe < 0)
		return pipe;
	rc = reap(pid, status, collect(job, pipe, deadline), deadline);
	unet_close(pipe);
	return rc;
}

/* One call of printf(), which locks the stream: no lines of other jobs are between. */
static void tell(const struct job *job, int rc, int status)
{
	char how[80];

	if (rc)
		snprintf(how, sizeof how, "%s", ustack_error(rc));
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
	printf("%s: %s\n%.*s", job->command, how, (int)job->size, job->output);
}

static int work(void *arg)
{
	struct job *job = arg;
	int status = 0, rc = usync_sem_wait(&room, USCHED_NEVER);

	if (rc == 0) {
		rc = run(job, &status);
		usync_sem_post(&room);
	}
	tell(job, rc, status);
	return 0;
}

static void watch(void *unused)
{
	(void)unused;
	if (unet_signal(signals, USCHED_NEVER) > 0)
		usync_scope_cancel(all, -ECANCELED);
}

static void serve(void *unused)
{
	struct ustack *watcher;

	(void)unused;
	if (usync_scope_create(NULL, &all, USCHED_NEVER)
	    || ustack_start(watch, NULL, &watcher))
		exit(1);
	for (struct job *job = jobs; job; job = job->next)
		if (usync_scope_start(all, work, job, NULL))
			tell(job, -ENOMEM, 0);
	usync_scope_wait(all, USCHED_NEVER);
	ustack_cancel(watcher);
	ustack_join(watcher, NULL, USCHED_NEVER);
	usync_scope_release(all);
}

static struct job *read_jobs(void)
{
	struct job *first = NULL, **end = &first;
	size_t size = 0;
	char *line = NULL;

	while (getline(&line, &size, stdin) > 0) {
		struct job *job = calloc(1, sizeof *job);

		if (!job)
			exit(1);
		line[strcspn(line, "\n")] = '\0';
		job->command = line;
		*end = job;
		end = &job->next;
		line = NULL;
	}
	free(line);
	return first;
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1 };        /* they compute nothing */
	struct uprocs *rr;
	sigset_t set;

	if (argc != 3 || (room.sm_count = (uint32_t)atoi(argv[1])) == 0)
		return fprintf(stderr, "usage: jobs N SECONDS <COMMANDS\n"), 2;
	limit = (int64_t)(atof(argv[2]) * (double)USYNC_SECOND);
	setvbuf(stdout, NULL, _IOLBF, 0);
	jobs = read_jobs();
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);         /* before rr_create() */
	signals = unet_signals(&set);
	if (signals < 0 || rr_create(&conf, &rr) || rr_start(rr, serve, NULL, NULL))
		return fprintf(stderr, "jobs: cannot start\n"), 1;
	return uprocs_destroy(rr, USCHED_NEVER) != 0;
}
