/* SPDX-License-Identifier: MIT */
/*
 * server.h: a server of examples/ on a host, unmodified, and its clients on others,
 * through faults. The server is an object of its own, whose main() is server_main(), and
 * is ended by SIGTERM when all clients have done their work. Then nothing of it is left.
 *
 * The program's argument names the faults; without one the seed takes some of them.
 */
#ifndef TESTS_SIM_SERVER_H
#define TESTS_SIM_SERVER_H

#include "check.h"

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "../../sim/sim.h"
#include "../../ubuf.h"
#include "../../unet.h"

#define SECOND  USYNC_SECOND
#define ADDRESS "10.0.0.1"

enum { MANY = 100, NUMBERS = 256 };

/* In place of the server's main(), exit() and unet_listen(). */
int server_main(int argc, char **argv);
void server_exit(int status) __attribute__((noreturn));
int server_listen(const struct unet_addr *a, int backlog, unsigned flags);

static struct {
	char           **s_argv;
	void           (*s_begins)(void);       /* the server, perhaps again; or NULL */
	void           (*s_stop)(void);         /* the clients are done; or NULL */
	void           (*s_finish)(void);       /* all have ended; or NULL */
	struct sim_host *s_host;
	void           (*s_client)(void *number);
	int              s_clients;
	int              s_done;                /* of them */
	bool             s_is_done[MANY];
	bool             s_failed;              /* to start */
	bool             s_ends;
	bool             s_faults;              /* there may be some */
	int              s_open;                /* descriptors at the begin, */
	int              s_left;                /* and more that its exit() closes */
	char            *s_data, *s_image;      /* its variables, now and at the begin */
	size_t           s_size;
} server;

static const struct { const char *name; struct sim_faults faults; } kinds[] = {
	{ "crash", { .f_crash = 1500 } },
	{ "partition", { .f_partition = 200 } },
	{ "reset", { .f_reset = 50 } },
	{ "short", { .f_short = 4 } },
	{ "slow", { .f_slow = 5 } },
	{ "open", { .f_open = 20 } },
	{ "lost", { .f_no_answer = 10 } },
};

/* Without files of hosts that have crashed, which have no names then. */
static int count_open(void)
{
	struct stat s;
	int n = 0;

	for (int fd = 0; fd < NUMBERS; fd++)
		n += fstat(fd, &s) == 0 && s.st_nlink > 0;
	return n;
}

/* First. Each kind has other members: bytes of several are joined. */
static void prepare(const char *name)
{
	struct sim_faults all = { 0 };

	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		const char *from = (const char *)&kinds[k].faults;

		if (name ? strcmp(name, kinds[k].name) != 0 && strcmp(name, "all") != 0
			 : sim_choose(2) == 0)
			continue;
		for (size_t i = 0; i < sizeof all; i++)
			((char *)&all)[i] |= from[i];
		server.s_faults = true;
	}
	sim_faults(&all);
	server.s_open = count_open();
}

/* ---- Memory of the server, which a crash loses ---- */

static int find_data(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t from = 0, to = 0;

	(void)size;
	(void)unused;
	if (!strstr(info->dlpi_name, "sim_server_"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_W) {
			from = from ? from : at;
			to = at + p->p_memsz;
		}
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_GNU_RELRO)
			from = (info->dlpi_addr + p->p_vaddr + p->p_memsz + 4095)
				& ~4095ul;
	}
	server.s_data = (char *)from;
	server.s_size = to - from;
	return 1;
}

static void keep_image(void)
{
	CHECK(dl_iterate_phdr(find_data, NULL) == 1);
	server.s_image = malloc(server.s_size);
	memcpy(server.s_image, server.s_data, server.s_size);
}

/* ---- Its host ---- */

void server_exit(int status)
{
	int left;

	if (status) {
		server.s_failed = true;
		sim_host_crash(server.s_host);
	}
	if (server.s_done < server.s_clients)
		sim_fail("the server has ended");
	if (server.s_finish)
		server.s_finish();
	left = count_open() - server.s_open - server.s_left;
	if (left)
		sim_fail("%d descriptors are left", left);
	exit(0);
}

int server_listen(const struct unet_addr *a, int backlog, unsigned flags)
{
	struct unet_addr all = *a;

	((struct sockaddr_in *)&all.ad_sockaddr)->sin_addr.s_addr = htonl(INADDR_ANY);
	return unet_listen(&all, backlog, flags);
}

/* A signal is for the host that it comes from. */
static void *end_server(void *unused)
{
	while (!server.s_ends)
		sleep(1);
	CHECK(kill(getpid(), SIGTERM) == 0);
	return unused;
}

static void serve(void *unused)
{
	int argc = 0;

	(void)unused;
	pthread_detach(started(end_server, NULL));
	memcpy(server.s_data, server.s_image, server.s_size);
	while (server.s_argv[argc])
		argc++;
	if (server.s_begins)
		server.s_begins();
	server_exit(server_main(argc, server.s_argv));
}

/* ---- Clients ---- */

static struct unet_addr at(const char *ip, int port)
{
	struct sockaddr_in in = address(ip, port);
	struct unet_addr a = { .ad_size = sizeof in };

	memcpy(&a.ad_sockaddr, &in, sizeof in);
	return a;
}

/* Tries until it is connected, perhaps with little room. Returns the descriptor. */
static int reach(int port)
{
	struct unet_addr a = at(ADDRESS, port);
	int fd, room = 1;

	while ((fd = unet_connect(&a, usync_after(3 * SECOND))) < 0)
		usync_sleep_until(usync_after(SECOND / 10));
	if (sim_choose(2))
		CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
	return fd;
}

/* A connection has come to its end early. */
static void lose(int error)
{
	if (!server.s_faults)
		sim_fail("a connection is lost: %s", strerror(-error));
}

/* Sometimes, up to a second. */
static void pause_sometimes(void)
{
	if (sim_choose(4) == 0)
		usync_sleep_until(usync_after((int64_t)sim_choose(1000) * SECOND / 1000));
}

/* A crash may come after its end, too. */
static void run_client(void *number)
{
	bool *is_done = &server.s_is_done[(intptr_t)number];

	if (*is_done)
		return;
	server.s_client(number);
	*is_done = true;
	server.s_done++;
}

/* Runs client(number) on each of n hosts; again after a crash. */
static void run_server(int n, int port, void (*client)(void *number))
{
	static char names[MANY][16];

	CHECK(n <= MANY);
	signal(SIGPIPE, SIG_IGN);
	keep_image();
	server.s_client = client;
	server.s_clients = n;
	CHECK(sim_host_start("server", ADDRESS, serve, NULL, &server.s_host) == 0);
	for (int i = 0; i < n; i++) {
		snprintf(names[i], sizeof names[i], "10.0.1.%d", i + 1);
		CHECK(sim_host_start(names[i], names[i], run_client,
				     (void *)(intptr_t)i, NULL) == 0);
	}
	while (server.s_done < n) {
		sleep(1);
		if (server.s_failed && sim_host_restart(server.s_host) == 0)
			server.s_failed = false;
	}
	sim_faults(&(struct sim_faults){ 0 });
	sleep(30);                              /* all faults are over */
	if (server.s_failed)
		sim_host_restart(server.s_host);
	unet_close(reach(port));
	sleep(1);
	if (server.s_stop)
		server.s_stop();
	server.s_ends = true;
	pthread_exit(NULL);
}

#endif /* TESTS_SIM_SERVER_H */
