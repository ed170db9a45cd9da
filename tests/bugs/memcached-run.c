/* SPDX-License-Identifier: MIT */
/*
 * memcached and its client in one process. The argument is what the client does:
 *
 *   stop   sends SIGUSR1: memcached must end
 *   auth   gives the right password while memcached reads the file of passwords again,
 *          after SIGHUP: it must be accepted
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 4 };

int server_main(int argc, char **argv);

static const char passwords[] = "/tmp/memcached-passwords";

/* Returns a connection, as soon as there is a server. */
static int connected(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(11211),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd;

	while (fd = socket(AF_INET, SOCK_STREAM, 0),
	       connect(fd, (struct sockaddr *)&a, sizeof a)) {
		close(fd);
		usleep(1000);
	}
	return fd;
}

static void *stop(void *unused)
{
	close(connected());
	kill(getpid(), SIGUSR1);
	return unused;
}

/* Gives the password by several connections at once. */
static void log_in(void)
{
	static const char login[] = "set login 0 0 11\r\nuser secret\r\n";
	char answer[6];
	int fd[MANY];

	for (int i = 0; i < MANY; i++)
		for (size_t at = (fd[i] = connected(), 0); at < sizeof login - 1;)
			at += (size_t)write(fd[i], login + at, sizeof login - 1 - at);
	for (int i = 0; i < MANY; i++) {
		if (recv(fd[i], answer, 6, MSG_WAITALL) < 6
		    || memcmp(answer, "STORED", 6))
			exit(1);
		close(fd[i]);
	}
}

/* memcached reads the file once a second, if there was a SIGHUP. */
static void *auth(void *unused)
{
	struct timespec then;

	close(connected());
	clock_gettime(CLOCK_MONOTONIC, &then);
	for (int i = 0; i < 5; i++) {
		kill(getpid(), SIGHUP);
		then.tv_sec++;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
		log_in();
	}
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	static char *arguments[] = { "memcached", "-u", "root", "-m", "2", "-t", "1",
		"-U", "0", "-l", "127.0.0.1", "-o", "no_lru_crawler,no_lru_maintainer,"
		"no_slab_reassign,no_hashexpand,hashpower=12", "-Y", (char *)passwords,
		NULL };
	int count = sizeof arguments / sizeof *arguments - 1;
	int is_auth = argc > 1 && strcmp(argv[1], "auth") == 0;
	int fd = open(passwords, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	pthread_t t;

	(void)!write(fd, "user:secret\n", 12);
	close(fd);
	if (!is_auth)
		arguments[count -= 2] = NULL;
	pthread_create(&t, NULL, is_auth ? auth : stop, NULL);
	server_main(count, arguments);
	pthread_join(t, NULL);
	return 0;
}
