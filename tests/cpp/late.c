/* SPDX-License-Identifier: MIT */
/*
 * late.c: a program in C that loads code in C++ while its scheduler is at work. The
 * runtime library of C++ must have been linked: one that comes with the code is not seen.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../rr.h"

enum { THREADS = 5, ROUNDS = 20 };

static int (*work)(int own, void (*block)(void));
static int wrong;

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "late: %s\n", what);
		exit(1);
	}
}

static void block(void)
{
	check(ustack_yield() == 0, "ustack_yield()");
}

static void call_plugin(void *arg)
{
	for (int n = 0; n < ROUNDS; n++)
		wrong += work((int)(intptr_t)arg, block);
}

static void load_plugin(void *path)
{
	void *plugin;

	block();
	plugin = dlopen(path, RTLD_NOW);
	check(plugin != NULL, "dlopen()");
	*(void **)&work = dlsym(plugin, "plugin_work");
	check(work != NULL, "dlsym()");
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct ustack *thread[THREADS];
	struct uprocs *rr;

	check(argc == 2, "the plugin's path is missing");
	check(rr_create(&conf, &rr) == 0, "rr_create()");
	check(rr_start(rr, load_plugin, argv[1], &thread[0]) == 0, "rr_start()");
	check(ustack_join(thread[0], NULL, USCHED_NEVER) == 0, "ustack_join()");
	for (intptr_t i = 0; i < THREADS; i++)
		check(rr_start(rr, call_plugin, (void *)i, &thread[i]) == 0,
		      "rr_start()");
	for (int i = 0; i < THREADS; i++)
		check(ustack_join(thread[i], NULL, USCHED_NEVER) == 0, "ustack_join()");
	check(uprocs_destroy(rr, USCHED_NEVER) == 0, "uprocs_destroy()");
	check(wrong == 0, "exceptions got mixed up");
	puts("good");
	return 0;
}
