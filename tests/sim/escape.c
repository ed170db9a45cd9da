/* SPDX-License-Identifier: MIT */
/* Calls that a simulation cannot repeat: the argument says which. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(int argc, char **argv)
{
	const char *call = argc > 1 ? argv[1] : "";

	if (strcmp(call, "fork") == 0 && fork() == 0)
		_exit(0);
	if (strcmp(call, "system") == 0)
		return system("true");
	if (strcmp(call, "relock") == 0)
		return pthread_mutex_lock(&mutex) || pthread_mutex_lock(&mutex);
	if (strcmp(call, "setitimer") == 0)
		setitimer(ITIMER_PROF, &(struct itimerval){ 0 }, NULL);
	if (strcmp(call, "symlink") == 0)
		return symlink("/tmp/a", "/tmp/b") == 0;
	if (strcmp(call, "settimeofday") == 0)
		return settimeofday(&(struct timeval){ 0, -1 }, NULL) == 0;
	if (strcmp(call, "device") == 0)
		return !fopen("/dev/ptmx", "r");
	if (strcmp(call, "syscall") == 0)
		syscall(SYS_unlinkat, -1, "none", 0);
	puts("done");
	return 0;
}
