/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.c: the handler that tells an overflow from other faults.
 *
 * What a native thread needs is in one mapping, which is freed when that thread ends:
 *
 *   | guard page | alternate stack ........................ | struct native |
 *
 * in this order, or backwards where stacks grow up.
 *
 * The handler may have interrupted any code, so the first line is written without a lock
 * and without allocation. The other lines need the locks of the threads' names and of the
 * dynamic linker, so these lines are written later, with a time limit.
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>

#include "../arch/arch.h"
#include "../src/base/code.h"
#include "../src/core/direction.h"
#include "../upreempt.h"
#include "../uproc.h"

#ifndef _SC_MINSIGSTKSZ
#define _SC_MINSIGSTKSZ (-1)            /* sysconf() returns -1 for that */
#endif

enum {
	HANDLER_ROOM = 64 << 10,        /* bytes of an alternate stack, on which previous
					   handlers run, too */
	GUARD        = 64 << 10,        /* bytes below a stack that count as overflow */
	GROWTH       = 1 << 20,  /* bytes that Linux keeps free below a growing stack */
	HEAD         = 4096,    /* bytes; usched_add_stack() takes off fewer */
	REPORT_IN    = 1,               /* seconds that the search for names and
					   calls may take */
	LINE_SIZE    = 512,             /* characters */
	EDGE         = 8,               /* calls shown from each end of the stack */
};

struct native {
	void  *nt_map;
	size_t nt_size;                 /* bytes of nt_map */
	char  *nt_end;                  /* the end of the native stack, or NULL */
	size_t nt_below, nt_above;      /* bytes around nt_end that count as overflow */
};

static pthread_once_t made_key = PTHREAD_ONCE_INIT, installed = PTHREAD_ONCE_INIT;
static pthread_key_t stack_key;         /* frees what install_stack() maps */
static int key_rc;
static __thread struct native *own_stack USCHED_TLS_MODEL;
static struct sigaction old_actions[2]; /* constant after install_handlers() */

/* ---- Stacks of handlers ---- */

/* Returns own_stack of the native thread, also if a thread with a TLS block runs. */
static struct native **native_here(void)
{
	char *native = usched__current->s_block;

	return native ? (struct native **)(void *)((char *)&own_stack
						   + (native - usched__block()))
		: &own_stack;
}

static void leave_stack(void)
{
	stack_t stack;

	if (sigaltstack(NULL, &stack) == 0
	    && (uintptr_t)stack.ss_sp - (uintptr_t)own_stack->nt_map
		       < own_stack->nt_size) {
		stack = (stack_t){ .ss_flags = SS_DISABLE };
		sigaltstack(&stack, NULL);
	}
	own_stack = NULL;
}

static void unmap_stack(void *native)
{
	struct native *n = (struct native *)native;

	munmap(n->nt_map, n->nt_size);
}

/* Frees the mapping of a native thread, when that native thread ends. */
static void leave_native(void *native)
{
	leave_stack();
	unmap_stack(native);
}

static void make_stack_key(void)
{
	key_rc = pthread_key_create(&stack_key, leave_native);
}

static void *map_stack(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = HANDLER_ROOM;
	struct native *n;
	char *map;

	if (sysconf(_SC_MINSIGSTKSZ) > 0)       /* bytes that the kernel needs */
		size += (size_t)sysconf(_SC_MINSIGSTKSZ);
	size = page + (size + page - 1) / page * page;
	map = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(stack_last(map, size, page), page, PROT_NONE)) {
		munmap(map, size);
		return NULL;
	}
	n = (struct native *)(void *)stack_first(map, size, sizeof *n);
	*n = (struct native){ .nt_map = map, .nt_size = size };
	return n;
}

/* Returns the lowest address to which the stack may grow, and makes *size larger. musl
   tells only how far the stack has grown, and not the limit. */
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

/*
 * Finds the end of the native stack, on which threads may be. The stack of the first
 * native thread has no guard, but grows to a limit, or to the next mapping. If the end is
 * not known, a fault there is no overflow. Where stacks grow up, glibc counts bytes
 * beyond the guard as a part of the stack, so the guard begins before the end.
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
	    && pthread_attr_getguardsize(&attr, &n->nt_below) == 0) {
		if (grows)
			low = lowest((char *)low, &size);
		n->nt_end = stack_last((char *)low, size, 0);
		n->nt_above = STACK_GROWS_UP ? size : 0;
	}
	pthread_attr_destroy(&attr);
	if (grows)
		n->nt_below = n->nt_above = GROWTH;
}

static void adopt_stack(void *native)
{
	struct native *n = (struct native *)native;
	stack_t stack;

	*native_here() = n;
	find_end(n);
	if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
		size_t guard = (size_t)sysconf(_SC_PAGESIZE);
		size_t rest = n->nt_size - sizeof *n;
		char *map = stack_last((char *)n->nt_map, n->nt_size, rest);

		stack = (stack_t){ .ss_sp = stack_first(map, rest, rest - guard) };
		stack.ss_size = rest - guard;
		sigaltstack(&stack, NULL);
	}
}

/* If the native thread has no alternate stack, gives it one, until its end. */
static int install_stack(void)
{
	void *native;

	pthread_once(&made_key, make_stack_key);
	if (key_rc)
		return -key_rc;
	if (*native_here())
		return 0;
	native = map_stack();
	if (!native)
		return -ENOMEM;
	if (pthread_setspecific(stack_key, native)) {
		unmap_stack(native);
		return -ENOMEM;
	}
	adopt_stack(native);
	return 0;
}

/* ---- The handler ---- */

static void unblock(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Kills the process by SIGSEGV, which has its default effect by now. */
static void die(int signo)
{
	(void)signo;
	unblock(SIGSEGV);
	raise(SIGSEGV);
}

static void report_overflow(const struct ustack *u, const struct usched_stack *k)
{
	bool native = k == &k->k_sched->s_native, own = k->k_stays & USCHED_ALONE;
	const struct native *n = *native_here();
	const char *end = native ? n->nt_end : stack_deeper(k->k_bottom, k->k_size);
	char line[LINE_SIZE];
	struct text t = TEXT(line, STDERR_FILENO);

	text_add(&t, "usched: stack overflow: thread %p, function %p, %sstack of %zu "
		 "bytes at %p; %s sets it\n", (const void *)u,
		 (const void *)(uintptr_t)ustack_func(u),
		 native ? "native " : own ? "own " : "",
		 (stack_depth(k->k_bottom, end) + HEAD - 1) / HEAD * HEAD,
		 (const void *)stack_low(k->k_bottom, end),
		 own ? "the call that started the thread"
		     : "c_stack_size of struct uprocs_conf");
	text_flush(&t);
}

struct calls {
	uintptr_t oc_fault;             /* the instruction of the fault */
	size_t    oc_count;
	uintptr_t oc_calls[2 * EDGE];   /* first EDGE calls, then a ring of the last */
};

/* Notes a call, unless the frame is one of the handler. */
static _Unwind_Reason_Code add_call(struct _Unwind_Context *context, void *arg)
{
	uintptr_t at = (uintptr_t)_Unwind_GetIP(context);
	struct calls *c = (struct calls *)arg;

	if (at == c->oc_fault && c->oc_count == 0)
		at++;                           /* like a return address */
	else if (c->oc_count == 0)
		return _URC_NO_REASON;
	if (!at)
		return _URC_END_OF_STACK;
	c->oc_calls[c->oc_count < EDGE ? c->oc_count : EDGE + c->oc_count % EDGE] = at;
	c->oc_count++;
	return _URC_NO_REASON;
}

static void report_calls(const struct ustack *u, const void *context)
{
	struct calls c = { .oc_fault = usched__interrupted(context) };
	char name[USTACK_NAME_MAX], line[LINE_SIZE];
	struct text t = TEXT(line, STDERR_FILENO);

	signal(SIGALRM, die);
	unblock(SIGALRM);
	alarm(REPORT_IN);
	if (ustack_get_name(u, name, sizeof name))
		name[0] = '\0';
	text_put(&t, "usched:   ");
	text_thread(&t, u, name);
	text_put(&t, ", function ");
	code_add(&t, (uintptr_t)ustack_func(u));
	if (c.oc_fault)
		_Unwind_Backtrace(add_call, &c);
	text_put(&t, c.oc_count > 0 ? ", at\n" : "\n");
	text_flush(&t);
	for (size_t i = 0; i < c.oc_count; i++) {
		if (i == EDGE && c.oc_count > 2 * EDGE) {
			text_add(&t, "usched:   and %zu more\n", c.oc_count - 2 * EDGE);
			i = c.oc_count - EDGE;
		}
		code_call(&t, c.oc_calls[i < EDGE ? i : EDGE + i % EDGE]);
		text_flush(&t);
	}
}

static bool is_around(const char *end, size_t below, size_t above, const void *address)
{
	return stack_index(stack_deeper(end, -above), address) < below + above;
}

/* Returns whether `address' is at the end of `k', the stack of the running thread. */
static bool is_overflow(const struct usched_stack *k, const void *address)
{
	const struct native *n = *native_here();

	if (k == &k->k_sched->s_new)            /* the thread is being launched */
		return false;
	if (k != &k->k_sched->s_native)
		return is_around(stack_deeper(k->k_bottom, k->k_size), GUARD, 0, address);
	return n && n->nt_end && is_around(n->nt_end, n->nt_below, n->nt_above, address);
}

/* Gives a fault the effect that it would have without this module. */
static void chain_fault(int signo, siginfo_t *info, void *context)
{
	const struct sigaction *old = &old_actions[signo == SIGBUS];
	bool sent = info->si_code <= 0 || info->si_code == SI_KERNEL;

	if (old->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
		signal(signo, SIG_DFL);         /* a fault cannot be ignored */
		if (sent)                       /* a sent signal does not come again */
			raise(signo);
	} else if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(signo, info, context);
	} else {
		old->sa_handler(signo);
	}
}

/* Returns after the message of an overflow. Then the fault comes again at the same place,
   and has the default effect, such as a core dump. */
static void on_fault(int signo, siginfo_t *info, void *context)
{
	const struct usched *s = upreempt__behind(usched__here());
	const struct ustack *u = s->s_current;
	const struct usched_stack *k = u ? usched__runs(s)->u_stack : NULL;

	if (info->si_code <= 0 || !k || !is_overflow(k, info->si_addr)) {
		chain_fault(signo, info, context);
		return;
	}
	report_overflow(u, k);
	signal(SIGSEGV, SIG_DFL);
	report_calls(u, context);
	if (signo != SIGSEGV)
		die(signo);
}

/* Installs on_fault(). The mask and flags are those of the previous handler, because
   chain_fault() may call that handler. */
static void install_for(int signo, struct sigaction *old)
{
	struct sigaction action;

	sigaction(signo, NULL, old);
	action = *old;
	action.sa_sigaction = on_fault;
	action.sa_flags |= SA_SIGINFO | SA_ONSTACK;
	sigaction(signo, &action, NULL);
}

static void install_handlers(void)
{
	Dl_info info;

	/* The first call of dladdr() may load code, which a handler must not do. */
	if (dladdr)
		dladdr(old_actions, &info);
	install_for(SIGSEGV, &old_actions[0]);
	install_for(SIGBUS, &old_actions[1]);
}

int uoverflow_install(void)
{
	int rc = install_stack();

	if (rc == 0)
		pthread_once(&installed, install_handlers);
	return rc;
}

/* Makes processors map alternate stacks before their native threads are made. */
__attribute__((constructor)) static void offer_overflow(void)
{
	uproc__observer.po_map = map_stack;
	uproc__observer.po_adopt = adopt_stack;
	uproc__observer.po_leave = leave_stack;
	uproc__observer.po_unmap = unmap_stack;
}
