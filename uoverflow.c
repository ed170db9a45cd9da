/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.c: the handler that tells an overflow from other faults.
 *
 * All that a native thread needs is in one mapping, freed at its end:
 *
 *   | guard page | alternate stack ........................ | struct native |
 *
 * in this order, or backwards where stacks grow up.
 *
 * The handler may have interrupted any code, so it calls nothing that takes a lock or
 * allocates, but for dladdr(), which comes last and with a time limit.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dladdr, pthread_getattr_np, gettid */
#endif
#include "uoverflow.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "private/code.h"
#include "private/direction.h"
#include "upreempt.h"
#include "usched.h"

enum {
	ROOM     = 64 << 10,            /* bytes: previous handlers use it, too */
	GUARD    = 64 << 10,            /* bytes below a stack where a frame may begin */
	GROWTH   = 1 << 20,  /* bytes that Linux keeps free below a growing stack */
	HEAD     = 4096,  /* bytes: more than usched_add_stack() uses of a stack */
	PATIENCE = 1,                   /* second for names */
	LINE     = 512,                 /* characters */
};

struct native {
	void  *n_map;
	size_t n_size;                  /* bytes of it */
	char  *n_end;                   /* of the native stack, */
	size_t n_below, n_above;        /* bytes around it where a fault is an overflow */
};

struct line {
	size_t l_length;
	char   l_text[LINE];
};

static pthread_once_t made_key = PTHREAD_ONCE_INIT, installed = PTHREAD_ONCE_INIT;
static pthread_key_t key;               /* frees what uoverflow_stack() maps */
static int key_rc;
static __thread struct native *mine USCHED_TLS;
static struct sigaction previous[2];    /* constant once it is installed */

static void make_key(void);
static void find_end(struct native *n);
static void *lowest(char *low, size_t *size);
static void leave(void *native);
static void install(void);
static void install_for(int signo, struct sigaction *old);
static void on_fault(int signo, siginfo_t *info, void *context);
static bool is_overflow(const struct usched_stack *k, const void *address);
static bool is_around(const char *end, size_t below, size_t above, const void *address);
static void chain(int signo, siginfo_t *info, void *context);
static void report(const struct ustack *u, const struct usched_stack *k);
static void report_names(uintptr_t function);
static void die(int signo);
static void set_default(int signo);
static void unblock(int signo);
static void add(struct line *line, const char *text);
static void add_number(struct line *line, uintptr_t n, unsigned base);
static void print(struct line *line);

int uoverflow_install(void)
{
	int rc = uoverflow_stack();

	if (rc == 0)
		pthread_once(&installed, install);
	return rc;
}

int uoverflow_stack(void)
{
	void *native;

	pthread_once(&made_key, make_key);
	if (key_rc)
		return -key_rc;
	if (mine)
		return 0;
	native = uoverflow__map();
	if (!native)
		return -ENOMEM;
	if (pthread_setspecific(key, native)) {
		uoverflow__unmap(native);
		return -ENOMEM;
	}
	uoverflow__adopt(native);
	return 0;
}

static void make_key(void)
{
	key_rc = pthread_key_create(&key, leave);
}

void *uoverflow__map(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = ROOM;
	struct native *n;
	char *map;

#ifdef _SC_MINSIGSTKSZ
	if (sysconf(_SC_MINSIGSTKSZ) > 0)       /* the system's own part */
		size += (size_t)sysconf(_SC_MINSIGSTKSZ);
#endif
	size = page + (size + page - 1) / page * page;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(stack_last(map, size, page), page, PROT_NONE)) {
		munmap(map, size);
		return NULL;
	}
	n = (void *)stack_first(map, size, sizeof *n);
	*n = (struct native){ .n_map = map, .n_size = size };
	return n;
}

void uoverflow__unmap(void *native)
{
	struct native *n = native;

	munmap(n->n_map, n->n_size);
}

void uoverflow__adopt(void *native)
{
	struct native *n = native;
	stack_t stack;

	mine = n;
	find_end(n);
	if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
		size_t guard = (size_t)sysconf(_SC_PAGESIZE);
		size_t rest = n->n_size - sizeof *n;
		char *map = stack_last(n->n_map, n->n_size, rest);

		stack = (stack_t){ .ss_sp = stack_first(map, rest, rest - guard) };
		stack.ss_size = rest - guard;
		sigaltstack(&stack, NULL);
	}
}

/*
 * Finds the end of the native stack, on which threads may be. The first native thread's
 * has no guard: it grows to its limit, or to the next mapping. If the end is not known, a
 * fault there is like any other. Where stacks grow up, glibc counts what it keeps beyond
 * the guard as a part of the stack, so the guard begins before that end.
 */
static void find_end(struct native *n)
{
	bool grows = getpid() == gettid();
	pthread_attr_t attr;
	void *low;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0
	    && pthread_attr_getguardsize(&attr, &n->n_below) == 0) {
		if (grows)
			low = lowest(low, &size);
		n->n_end = stack_last(low, size, 0);
		n->n_above = STACK_GROWS_UP ? size : 0;
	}
	pthread_attr_destroy(&attr);
	if (grows)
		n->n_below = n->n_above = GROWTH;
}

/* musl tells how far it has grown, and not its limit. */
static void *lowest(char *low, size_t *size)
{
	struct rlimit limit;
	size_t more;

	if (STACK_GROWS_UP || getrlimit(RLIMIT_STACK, &limit)
	    || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur / 2 < *size)
		return low;
	more = (size_t)limit.rlim_cur - *size;
	*size += more;
	return low - more;
}

void uoverflow__leave(void)
{
	stack_t stack;

	if (sigaltstack(NULL, &stack) == 0
	    && (uintptr_t)stack.ss_sp - (uintptr_t)mine->n_map < mine->n_size) {
		stack = (stack_t){ .ss_flags = SS_DISABLE };
		sigaltstack(&stack, NULL);
	}
	mine = NULL;
}

/* At the end of a native thread. */
static void leave(void *native)
{
	uoverflow__leave();
	uoverflow__unmap(native);
}

static void install(void)
{
	Dl_info info;

	/* Loads what dladdr() needs of the dynamic linker. */
	if (dladdr)
		dladdr(previous, &info);
	install_for(SIGSEGV, &previous[0]);
	install_for(SIGBUS, &previous[1]);
}

/* With the flags and mask of the previous handler, which apply when it is called. */
static void install_for(int signo, struct sigaction *old)
{
	struct sigaction action;

	sigaction(signo, NULL, old);
	action = *old;
	action.sa_sigaction = on_fault;
	action.sa_flags |= SA_SIGINFO | SA_ONSTACK;
	sigaction(signo, &action, NULL);
}

/*
 * Returns after the message. The fault comes again at the same place, with its default
 * effect, a core dump included.
 */
static void on_fault(int signo, siginfo_t *info, void *context)
{
	const struct usched *s = upreempt__behind(usched__here());
	const struct ustack *u = s->s_current;
	const struct usched_stack *k = u ? usched__runs(s)->u_stack : NULL;

	if (info->si_code <= 0 || !k || !is_overflow(k, info->si_addr)) {
		chain(signo, info, context);
		return;
	}
	report(u, k);
	set_default(SIGSEGV);
	report_names((uintptr_t)ustack_func(u));
	if (signo != SIGSEGV)
		die(signo);
}

/* Whether the fault is at the end of `k', where the running thread is. */
static bool is_overflow(const struct usched_stack *k, const void *address)
{
	const struct native *n = mine;

	if (k == &k->k_sched->s_new)            /* it is being launched */
		return false;
	if (k != &k->k_sched->s_native)
		return is_around(stack_deeper(k->k_bottom, k->k_size), GUARD, 0, address);
	return n && n->n_end && is_around(n->n_end, n->n_below, n->n_above, address);
}

static bool is_around(const char *end, size_t below, size_t above, const void *address)
{
	return stack_index(stack_deeper(end, -above), address) < below + above;
}

/* The effect of the fault without this module. */
static void chain(int signo, siginfo_t *info, void *context)
{
	const struct sigaction *old = &previous[signo == SIGBUS];
	bool sent = info->si_code <= 0 || info->si_code == SI_KERNEL;

	if (old->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
		set_default(signo);             /* a fault cannot be ignored */
		if (sent)                       /* it does not come again */
			raise(signo);
	} else if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(signo, info, context);
	} else {
		old->sa_handler(signo);
	}
}

static void report(const struct ustack *u, const struct usched_stack *k)
{
	bool native = k == &k->k_sched->s_native, own = k->k_stays & USCHED_ALONE;
	const struct native *n = mine;
	const char *end = native ? n->n_end : stack_deeper(k->k_bottom, k->k_size);
	struct line line = { 0 };

	add(&line, "usched: stack overflow: thread ");
	add_number(&line, (uintptr_t)u, 16);
	add(&line, ", function ");
	add_number(&line, (uintptr_t)ustack_func(u), 16);
	add(&line, native ? ", native stack of " : own ? ", own stack of "
						       : ", stack of ");
	add_number(&line, (stack_depth(k->k_bottom, end) + HEAD - 1) / HEAD * HEAD, 10);
	add(&line, " bytes at ");
	add_number(&line, (uintptr_t)stack_low(k->k_bottom, end), 16);
	add(&line, own ? "; the call that started the thread sets it"
		       : "; c_stack_size of struct usched_conf sets it");
	print(&line);
}

/* dladdr() takes a lock, whose owner may wait for this native thread. */
static void report_names(uintptr_t function)
{
	struct sigaction action = { .sa_handler = die };
	uintptr_t place = code_address(function);
	struct line line = { 0 };
	Dl_info info;

	if (!dladdr)
		return;
	sigaction(SIGALRM, &action, NULL);
	unblock(SIGALRM);
	alarm(PATIENCE);
	if (!dladdr((const void *)function, &info) || !info.dli_fname)
		return;
	add(&line, "usched:   function ");
	add_number(&line, function, 16);
	add(&line, ": ");
	if (info.dli_sname) {
		add(&line, info.dli_sname);
		add(&line, "+");
		add_number(&line, place - code_address((uintptr_t)info.dli_saddr), 16);
		add(&line, ", ");
	}
	add(&line, info.dli_fname);
	add(&line, "+");
	add_number(&line, place - (uintptr_t)info.dli_fbase, 16);
	print(&line);
}

/* Dies of SIGSEGV, which has its default effect now. */
static void die(int signo)
{
	(void)signo;
	unblock(SIGSEGV);
	raise(SIGSEGV);
}

static void set_default(int signo)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigaction(signo, &action, NULL);
}

static void unblock(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Cuts off what does not fit, with a place left for the end of the line. */
static void add(struct line *line, const char *text)
{
	while (*text && line->l_length < LINE - 1)
		line->l_text[line->l_length++] = *text++;
}

static void add_number(struct line *line, uintptr_t n, unsigned base)
{
	char digits[2 + 3 * sizeof n + 1], *p = digits + sizeof digits;

	*--p = '\0';
	do
		*--p = "0123456789abcdef"[n % base];
	while (n /= base);
	if (base == 16) {
		*--p = 'x';
		*--p = '0';
	}
	add(line, p);
}

static void print(struct line *line)
{
	line->l_text[line->l_length++] = '\n';
	while (write(STDERR_FILENO, line->l_text, line->l_length) < 0 && errno == EINTR)
		;
}
