/* SPDX-License-Identifier: MIT */
/*
 * A server over unet, as it is: examples/04-echo.c. Clients of POSIX talk to it, and end
 * it by its signal.
 */
int serve_main(int argc, char **argv);

#define main serve_main
#include "../../examples/04-echo.c"
#undef main
#define check check_test
#include "check.h"

static void *talk_to_it(void *unused)
{
	(void)unused;
	usleep(10000);
	run_clients();
	CHECK(kill(getpid(), SIGTERM) == 0);
	return NULL;
}

int main(void)
{
	char *argv[] = { "echo", "10.0.0.1:7000", NULL };

	pthread_detach(started(talk_to_it, NULL));
	CHECK(serve_main(2, argv) == 0);
	puts("unet: passed");
	return 0;
}
