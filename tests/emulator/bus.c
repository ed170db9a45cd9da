/* SPDX-License-Identifier: MIT */
/* bus.c: a SIGBUS has the address of the fault. qemu 7.2 for ARM has another one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *map;

static void handler(int signo, siginfo_t *info, void *context)
{
	(void)context;
	printf("signal %d, code %d, at byte %ld\n", signo, info->si_code,
	       (long)((char *)info->si_addr - map));
	exit(info->si_addr != map + 8);
}

int main(void)
{
	static char alternate[65536];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	struct sigaction action = { .sa_sigaction = handler,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	FILE *file = tmpfile();

	sigaltstack(&stack, NULL);
	sigaction(SIGBUS, &action, NULL);
	map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	map[8] = 1;
	return 2;
}
