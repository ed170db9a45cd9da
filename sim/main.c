/* SPDX-License-Identifier: MIT */
/*
 * main.c: main() as a thread, and several programs in a run. A program that
 * usched-run --with names is loaded like a library, before the processes of runs are
 * forked. So all programs call the same simulated functions, and each program has
 * separate variables. Shared libraries are loaded once, for all programs.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <wordexp.h>

#include "../posix/uposix_set.h"
#include "../src/core/outside.h"
#include "world.h"

/* Begins the definition of a function in place of libc's; REAL() is that of libc. */
#define INSTEAD __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(name) *)(uintptr_t)dlsym(RTLD_NEXT, #name))

/* ---- Programs ---- */

typedef int main_fn(int argc, char **argv, char **envp);

enum {
	PROGRAMS = 16,                  /* the most programs of a run */
	SIGNALS  = 65,
};

/*
 * The programs of the run. programs[0] is the program of the command line; usched-run
 * --with names the other programs. If there are several programs, each has a host, and
 * the hosts share the files and addresses of the machine. The programs of --with begin
 * when programs[0] listens, and a thread of that program waits.
 */
static struct program {
	main_fn         *p_main;
	int              p_argc;
	char           **p_argv;
	struct sim_host *p_host;
	struct sigaction p_actions[SIGNALS];    /* of signals, if there are several */
	struct link_map *p_library;     /* NULL: the program was not loaded by --with */
	bool             p_parses;      /* getopt() was called */
	bool             p_serves;      /* clients can reach the program */
	bool             p_ended;
} programs[PROGRAMS];
static unsigned n_programs = 1, ended;
static char **strings;                  /* envp of main() */
static bool terminates;                 /* servers get SIGTERM */
bool sim__several;

static void run_program(void *program)
{
	const struct program *p = program;

	uposix__set_mask(uposix__me(), 0);      /* not that of another program */
	exit(p->p_main(p->p_argc, p->p_argv, strings));
}

static void start_host(struct program *p)
{
	/* A copy, since setproctitle() overwrites arguments. */
	const char *name = strdup(basename(p->p_argv[0]));

	if (!name || sim_host_start(name, NULL, run_program, p, &p->p_host))
		sim_fail("no memory for a program");
	p->p_host->h_shares = true;
}

static void *run_first(void *first)
{
	if (first && n_programs == 1)
		run_program(first);
	else if (first)
		start_host(first);
	return NULL;
}

/* Runs the first program in a thread. With NULL, only makes what threads need. */
static void run_thread(struct program *first)
{
	pthread_t t;

	if (uposix_pthread_create(&t, NULL, run_first, first)
	    || uposix_pthread_join(t, NULL))
		sim_fail("no thread for main()");
}

/* Returns the caller's program if there are several, or NULL. */
static struct program *own_program(void)
{
	const struct sim_host *host = sim__host();

	return host && host->h_shares ? host->h_arg : NULL;
}

/* Handles SIGTERM if the program does not. */
static void end_at_once(int unused)
{
	(void)unused;
	sim__leave(0);
	sim__end(SIM_PASSED, "");
}

/* Sends SIGTERM to a server, which has a second to see that connections are closed. */
static void *terminate(void *unused)
{
	struct sigaction action;

	uposix__set_mask(uposix__me(), ~UINT64_C(0));   /* the server's threads take
							   the signal */
	usync_sleep_until(usync_after(USYNC_SECOND));
	if (sigaction(SIGTERM, NULL, &action) || action.sa_handler == SIG_DFL
	    || action.sa_handler == SIG_IGN)
		signal(SIGTERM, end_at_once);
	kill(uposix_getpid(), SIGTERM);
	return unused;
}

/* Ends all programs that are left if these are servers, as programs[0] is. */
static void end_servers(void)
{
	struct program *p, *end = programs + n_programs;

	for (p = programs + 1; p < end; p++)
		if (terminates || (!p->p_ended && !p->p_serves))
			return;
	terminates = true;
	for (p = programs; p < end; p++)
		if (!p->p_ended && sim__start_on(p->p_host, terminate, NULL))
			sim_fail("no memory for a thread");
}

void sim__may_serve(void)
{
	struct program *p = own_program();

	if (!p || p->p_serves || !sim__is_served(p->p_host))
		return;
	p->p_serves = true;
	for (unsigned i = 1; i < n_programs && p == programs; i++)
		start_host(&programs[i]);
	end_servers();
}

void sim__leave(int status)
{
	struct sim_host *host = sim__host();
	struct program *p = own_program();

	if (!p)
		return;
	if (status && !(terminates && (status & 127) == SIGTERM))
		sim_fail("%s: the exit status is %d", host->h_name, status);
	if (!programs[0].p_serves)
		sim_fail("%s has ended before a wait for connections: no program "
			 "of --with has begun", host->h_name);
	p->p_ended = true;
	if (++ended == n_programs && status)
		sim__end(SIM_PASSED, "");
	if (ended == n_programs)
		return;
	end_servers();
	sim__stop_host(host);
}

/* Replaces the function of libc: programs have actions of their own. */
INSTEAD int sigaction(int sig, const struct sigaction *restrict action,
		      struct sigaction *restrict before)
{
	struct program *p = own_program();

	if (!p || sig <= 0 || sig >= SIGNALS)
		return REAL(sigaction)(sig, action, before);
	if (before)
		*before = p->p_actions[sig];
	if (action)
		p->p_actions[sig] = *action;
	return 0;
}

INSTEAD __sighandler_t signal(int sig, __sighandler_t handler)
{
	const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct sigaction before;

	if (!own_program())
		return REAL(signal)(sig, handler);
	return sigaction(sig, &action, &before) ? SIG_ERR : before.sa_handler;
}

/* Replaces the function of libc: a program of several ends alone. */
INSTEAD void exit(int status)
{
	sim__leave(status);
	REAL(exit)(status);
	__builtin_unreachable();
}

/* ---- Programs of --with ---- */

static struct program *loading;         /* __libc_start_main() sets p_main of this
					   program, and jumps to `loaded' */
static jmp_buf loaded;

/* Returns what a program has at an address, in an image of its file; or NULL. */
static void *in_image(char *image, size_t size, uintptr_t address)
{
	const ElfW(Ehdr) *e = (void *)image;
	const ElfW(Phdr) *p = (void *)(image + e->e_phoff), *end = p + e->e_phnum;

	for (; p < end; p++)
		if (p->p_type == PT_LOAD && address - p->p_vaddr < p->p_filesz
		    && p->p_offset + p->p_filesz <= size)
			return image + p->p_offset + (address - p->p_vaddr);
	return NULL;
}

/*
 * Hides the copies that an executable has of variables of libraries. The dynamic linker
 * would take such a copy for the variable, unless the first program has the library, too.
 */
static void hide_copies(char *image, size_t size, const ElfW(Dyn) *d)
{
	const char *words = NULL;
	ElfW(Sym) *symbols = NULL, *s;
	ElfW(Rela) *r = NULL;
	size_t n = 0;

	for (; d->d_tag != DT_NULL; d++) {
		void *at = in_image(image, size, d->d_un.d_ptr);

		if (d->d_tag == DT_STRTAB)
			words = at;
		else if (d->d_tag == DT_SYMTAB)
			symbols = at;
		else if (d->d_tag == DT_RELA)
			r = at;
		else if (d->d_tag == DT_RELASZ)
			n = d->d_un.d_val / sizeof *r;
	}
	for (; words && symbols && r && n > 0; n--, r++) {
		s = symbols + ELF64_R_SYM(r->r_info);
		if (s->st_value == r->r_offset
		    && !dlsym(RTLD_DEFAULT, words + s->st_name))
			s->st_value = 0;
	}
}

/*
 * Changes the image of an executable so that the dynamic linker loads it as a library.
 * Returns NULL, or why the image cannot be a library.
 */
static const char *make_library(char *image, size_t size)
{
	static const char *const no_program = "that is no program linked dynamically";
	ElfW(Ehdr) *e = (void *)image;
	const ElfW(Phdr) *p = (void *)(image + e->e_phoff), *end = p + e->e_phnum;
	ElfW(Dyn) *d = NULL;

	if (memcmp(e->e_ident, ELFMAG, SELFMAG)
	    || (e->e_type != ET_DYN && e->e_type != ET_EXEC)
	    || e->e_phoff + e->e_phnum * sizeof *p > size)
		return no_program;
	for (; p < end; p++) {
		if (p->p_type == PT_TLS)
			return "thread-local variables: make this the program, and "
			       "give the other one by --with";
		if (p->p_type == PT_DYNAMIC && p->p_offset < size)
			d = (void *)(image + p->p_offset);
	}
	if (d)
		hide_copies(image, size, d);
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_FLAGS_1)
			d->d_un.d_val &= ~(ElfW(Xword))DF_1_PIE;
	e->e_type = ET_DYN;
	return d ? NULL : no_program;
}

/*
 * Copies a program into memory as a library, and sets *entry to the offset of the start,
 * and *fixed if the program was linked without -pie. The copy, *to, stays open, so that
 * two copies of a program have different names. Returns NULL, or what is wrong.
 */
static const char *copy_program(const char *path, int *to, uintptr_t *entry, bool *fixed)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), low = memfd_create("program", 0);
	const char *wrong = "the file cannot be read, or not be copied";
	struct stat s = { .st_size = 0 };
	char *image = MAP_FAILED;

	*to = sim__own(low);
	close(low);
	if (fstat(from, &s) == 0 && (size_t)s.st_size > sizeof(ElfW(Ehdr))
	    && sendfile(*to, from, NULL, (size_t)s.st_size) == s.st_size)
		image = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			     *to, 0);
	close(from);
	if (image == MAP_FAILED)
		return wrong;
	*fixed = ((ElfW(Ehdr) *)(void *)image)->e_type == ET_EXEC;
	wrong = make_library(image, (size_t)s.st_size);
	*entry = ((ElfW(Ehdr) *)(void *)image)->e_entry;
	munmap(image, (size_t)s.st_size);
	return wrong;
}

/*
 * An executable has copies of variables of its libraries, such as std::cout. The loader
 * takes them from the library, but the library itself uses the copy of the first program.
 */
static void copy_variables(const struct link_map *l)
{
	const ElfW(Rela) *r = NULL;
	const ElfW(Sym) *all = NULL;
	const char *names = NULL;
	size_t n = 0;

	for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_RELA)
			r = (void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RELASZ)
			n = d->d_un.d_val / sizeof *r;
		else if (d->d_tag == DT_SYMTAB)
			all = (void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			names = (void *)d->d_un.d_ptr;
	for (; r && n > 0; n--, r++) {
		const ElfW(Sym) *s = &all[r->r_info >> 32];
		void *from = s->st_size && s->st_value == r->r_offset
			? dlsym(RTLD_DEFAULT, names + s->st_name) : NULL;
		char *to = (char *)l->l_addr + r->r_offset;

		if (from && memcmp(to, from, s->st_size)) /* else maybe read-only */
			memcpy(to, from, s->st_size);
	}
}

/*
 * Loads a program, and finds main(): the start of the program passes main() to
 * __libc_start_main(), which jumps back. Python is linked without -pie, and modules of
 * Python use variables of the program. Returns NULL, or what is wrong.
 */
static const char *load_program(struct program *p)
{
	char name[64];
	uintptr_t entry;
	bool fixed;
	int copy;
	const char *wrong = copy_program(p->p_argv[0], &copy, &entry, &fixed);

	if (wrong)
		return wrong;
	snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
	p->p_library = dlopen(name, RTLD_NOW | (fixed ? RTLD_GLOBAL : RTLD_LOCAL));
	if (!p->p_library)
		return dlerror();
	if (fixed && p->p_library->l_addr)
		return "two programs were linked without -pie";
	copy_variables(p->p_library);
	p->p_library->l_name = strdup(p->p_argv[0]);    /* for reports */
	loading = p;
	if (setjmp(loaded) == 0)
		((void (*)(void))(p->p_library->l_addr + entry))();
	loading = NULL;
	return NULL;
}

/*
 * Copies the variables of getopt() between libc and a program of --with. Each executable
 * has variables of its own, and libc uses only those of the first program.
 */
static void copy_options(bool to_libc)
{
#define OPTION(name) { #name, &name, sizeof name }
	static const struct { const char *name; void *libc; size_t size; } of[] = {
		OPTION(optind), OPTION(opterr), OPTION(optopt), OPTION(optarg),
	};
	struct program *p = own_program();

	if (!p || !p->p_library)
		return;
	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		void *own = dlsym(p->p_library, of[i].name);

		memmove(to_libc ? of[i].libc : own, to_libc ? own : of[i].libc,
			of[i].size);
	}
	if (!p->p_parses)
		optind = 0;             /* libc forgets the options of other programs */
	p->p_parses = true;
}

#define GETOPT(name, parameters, arguments)					\
INSTEAD int name parameters							\
{										\
	int rc;									\
										\
	copy_options(true);							\
	rc = REAL(name) arguments;						\
	copy_options(false);							\
	return rc;								\
}

GETOPT(getopt, (int n, char *const *argv, const char *letters), (n, argv, letters))
GETOPT(getopt_long, (int n, char *const *argv, const char *letters,
		     const struct option *words, int *index),
       (n, argv, letters, words, index))
GETOPT(getopt_long_only, (int n, char *const *argv, const char *letters,
			  const struct option *words, int *index),
       (n, argv, letters, words, index))

/* Loads the programs of --with: USCHED_SIM_WITH has a command in each line. */
static void load_programs(void)
{
	const char *given = outside_setting("USCHED_SIM_WITH"), *wrong;
	char *rest = given ? strdup(given) : NULL, *command;
	wordexp_t words;

	while ((command = strsep(&rest, "\n"))) {
		struct program *p = &programs[n_programs];

		if (n_programs == PROGRAMS)
			wrong = "there are too many programs";
		else if (wordexp(command, &words, WRDE_NOCMD) || words.we_wordc == 0)
			wrong = "that is no command of words";
		else {
			p->p_argc = (int)words.we_wordc;
			p->p_argv = words.we_wordv;
			wrong = load_program(p);
		}
		if (wrong) {
			fprintf(stderr, "usched-run: --with '%s': %s\n", command, wrong);
			_exit(2);
		}
		n_programs++;
	}
	sim__several = n_programs > 1;
}

bool sim__clients_wait(void)
{
	return n_programs > 1 && !programs[1].p_host;
}

/* ---- main() ---- */

/*
 * Called in place of main(). sim__serve() returns once in the process of each run. The
 * scheduler is created before that call, so that all runs inherit the scheduler.
 */
static int simulate(int argc, char **argv, char **envp)
{
	strings = envp;
	programs[0].p_argc = argc;
	programs[0].p_argv = argv;
	sim__find_calls();
	load_programs();
	sim__begin(&(struct sim_conf){ 0 }, &sim__in_order);
	run_thread(NULL);
	sim__begin_heap();
	sim__serve(argv);
	sim__enters = 1;
	run_thread(programs);
	/* There are several programs, or main() has called pthread_exit(). */
	uprocs_destroy(sim__run.r_proc->p_procs, USCHED_NEVER);
	exit(0);
}

/* Replaces the function of libc that calls main(). */
INSTEAD int __libc_start_main(main_fn *run, int argc, char **argv, void (*init)(void),
			      void (*fini)(void), void (*end)(void), void *stack);

int __libc_start_main(main_fn *run, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*end)(void), void *stack)
{
	if (loading) {
		loading->p_main = run;
		longjmp(loaded, 1);
	}
	programs[0].p_main = run;
	return REAL(__libc_start_main)(outside_setting("USCHED_SIM") ? simulate : run,
				       argc, argv, init, fini, end, stack);
}
