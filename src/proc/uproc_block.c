/* SPDX-License-Identifier: MIT */
/*
 * uproc_block.c: gives each thread a TLS block of its own, as native threads have. So
 * errno, all thread-local variables of the program and of libraries, and the state that
 * libc keeps for a thread, belong to the thread. The switch sets the thread pointer:
 * usched__set_block().
 *
 *	        x86-64                                  AArch64
 *	own     +----------------------+                +----------------------+
 *	        | struct own           |                | struct own           |
 *	        +----------------------+                +----------------------+
 *	        | static TLS           |                | struct pthread       |
 *	block   +----------------------+        block   +----------------------+
 *	        | struct pthread       |                | static TLS           |
 *	        +----------------------+                +----------------------+
 *
 * The dynamic linker's own function fills in a block. libc's struct pthread is copied
 * from the native thread that runs the new thread, except for what must be the thread's
 * own. usched's variables are at the same offset in each block, so code that uses them
 * needs no change.
 *
 * Handlers of libc's internal signals expect the native thread's block, s_block.
 *
 * A block lies at the top of the thread's own stack, so that both share pages; without an
 * own stack, in memory of malloc().
 *
 * The blocks of ended threads keep libc's state, such as a cache of malloc(), for later
 * threads. All other variables get their initial values again. To give a block back, a
 * native thread takes libc's state over and ends, so libc frees the state.
 *
 * Offsets in struct pthread are those that libc tells debuggers. probe() compares each
 * with the calling thread. If any differs, threads have no blocks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dl_iterate_phdr(), RTLD_DEFAULT */
#endif
#include "block.h"
#include "layout.h"
#include "proc.h"

#include "../../arch/arch.h"
#include "../base/lock.h"
#include "../base/sim.h"
#include "../watch/watch.h"

#if ARCH_BLOCK && defined(__GLIBC__)

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	KEYS      = 32,                 /* keys in the first level of pthread's table */
	RESOLVER  = 568,                /* bytes of struct __res_state */
	NO_CPU    = -2,                 /* rseq's cpu_id if the area is not registered */
	RSEQ_SIZE = 32, RSEQ_UNREGISTER = 1, RSEQ_SIGNATURE = 0x53053053, /* libc's */
	SEGMENTS  = 256,
	POOLED    = 1024,               /* the most blocks that wait for a thread */
	LINE      = 64,                 /* bytes: the least alignment of a block */
	INTERNAL  = 32,                 /* libc's signals: 32 and 33 */
	INTERNALS = 2,
};

/* An old libc has dlsym() in a library that programs may lack. dlsym() finds the other
   functions, since static programs have no dynamic linker. */
extern __typeof__(dlsym) dlsym __attribute__((weak));

/* Offsets in struct pthread, and others. Constant after uproc__probe_blocks(). */
static struct {
	size_t    f_pthread;            /* size of struct pthread */
	size_t    f_below;              /* bytes from there to the thread pointer */
	size_t    f_tid, f_list, f_specific;
	size_t    f_robust;             /* 0: the kernel, as of emulators, has no list */
	size_t    f_res;                /* the resolver's state; 0: not known yet */
	ptrdiff_t f_resp;               /* from the thread pointer: points there */
	ptrdiff_t f_rseq;               /* likewise; 0: libc has registered no area */
	size_t    f_static;             /* size of static TLS, with what is above the
					   thread pointer */
	size_t    f_align;
} facts;

/* libc's and the dynamic linker's. The second returns the address for a module and an
   offset. */
static void *(*open_object)(const char *name, int how);
static void *(*address_of)(size_t *index);
static void *(*allocate)(void *block);
static void (*deallocate)(void *block, bool all);
static void (*init_ctype)(void);
static void (*call_destructors)(void);  /* of the variables in the caller's block */

/* TLS of an object that was seen. */
static struct segment {
	const void *sg_object;          /* dlpi_phdr of the object */
	const char *sg_name;            /* of the object's file */
	ptrdiff_t   sg_at;              /* from the thread pointer */
	const char *sg_image;           /* NULL: not renewed for the next thread */
	size_t      sg_filled, sg_size;
} segments[SEGMENTS], libc;
static size_t segments_used;
static unsigned long long loads_seen;   /* count of loaded objects at the last look */
static bool once;                       /* no block is used again, since some object has
					   other TLS; atomic */

/* What is below a block. */
struct own {
	struct own          *ow_next;   /* neighbours in the list of all */
	struct own          *ow_prev;
	struct own          *ow_pooled; /* next in the pool: the blocks that ended threads
					   have left */
	char               **ow_at;     /* of a block on a stack: what refers to it; NULL:
					   the block is from malloc() */
	const struct uprocs *ow_procs;  /* scheduler of the thread; NULL: no thread */
	struct usched__wrap  ow_wrap;
	void               (*ow_serve)(int fd, void *arg);      /* or NULL: ow_func */
	int                  ow_fd;
	void               (*ow_func)(void *);
	void                *ow_arg;
};

/* The lock protects all of the variables above and both lists. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct own all_blocks = { .ow_next = &all_blocks, .ow_prev = &all_blocks };
static size_t pooled;
struct layout_list uproc__lists[] = { { &all_blocks, offsetof(struct own, ow_at), 0 },
				      { NULL, 0, 0 } };

/* The native block of the thread that forked last; NULL: it had no own block. */
static char *forking;
static bool on_block;                   /* this process began as such a child */

static void **words(char *p)
{
	return (void **)(void *)p;
}

static char *pthread_of(char *block)
{
	return block - facts.f_below;
}

static size_t align(size_t n)
{
	return (n + facts.f_align - 1) & ~(facts.f_align - 1);
}

/* Bytes from a struct own to the block, and from there to the end. */
static size_t before(void)
{
	return align(sizeof(struct own))
		+ align(ARCH_TLS_ABOVE ? facts.f_below
				       : facts.f_static - facts.f_pthread);
}

static size_t behind(void)
{
	return ARCH_TLS_ABOVE ? facts.f_static : facts.f_pthread;
}

static struct own *own_of(char *block)
{
	return (struct own *)(void *)(block - before());
}

static char *block_of(struct own *o)
{
	return (char *)o + before();
}

/* ---- What libc is like ---- */

/* Sets *at to the offset of a member of struct pthread. Returns false if libc does not
   tell the offset. */
static bool find_member(const char *name, size_t *at)
{
	const uint32_t *tells = (const uint32_t *)dlsym(RTLD_DEFAULT, name);

	if (tells)
		*at = tells[2];         /* behind the number of bits, and of elements */
	return tells;
}

/* Sets the pointer at `to' to a function of libc. Returns false if there is none. */
static bool find_function(const char *name, void *to)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	memcpy(to, &function, sizeof function);
	return function;
}

static bool find_functions(void)
{
	void (*tell_static)(size_t *size, size_t *align);

	if (!find_function("dlopen", &open_object)
	    || !find_function("__tls_get_addr", &address_of)
	    || !find_function("_dl_allocate_tls", &allocate)
	    || !find_function("_dl_deallocate_tls", &deallocate)
	    || !find_function("__ctype_init", &init_ctype)
	    || !find_function("__call_tls_dtors", &call_destructors)
	    || !find_function("_dl_get_tls_static_info", &tell_static))
		return false;
	tell_static(&facts.f_static, &facts.f_align);
	if (facts.f_align < LINE)
		facts.f_align = LINE;
	return true;
}

/* Returns whether thread-local data of the caller is in its block, not elsewhere. */
static bool is_static(const char *data)
{
	char *block = usched__block();

	return data && (size_t)(ARCH_TLS_ABOVE ? data - block : block - data)
		<= facts.f_static;
}

/* Returns whether what was found is so in the calling native thread. */
static bool is_right(char *block, char *robust)
{
	char *self = pthread_of(block), *modules = (char *)words(block)[!ARCH_TLS_ABOVE];

	return is_static((char *)&usched__current)
	    && is_static((char *)words(modules)[2])     /* of the first module */
	    && (ARCH_TLS_ABOVE || (*words(self) == self && *words(self + 16) == self))
	    && *(pid_t *)(void *)(self + facts.f_tid) == (pid_t)syscall(SYS_gettid)
	    && (!robust || (facts.f_robust + 24 <= facts.f_pthread
			    && *words(robust - 8) == robust))
	    && *words(self + facts.f_specific) == self + facts.f_specific - KEYS * 16;
}

/* Finds the resolver's state, which is in struct pthread in all threads but main().
   Called on processors, where dlsym() might wait for a thread of the processor. */
static void find_resolver(char *native)
{
	size_t at = (size_t)((char *)*words(native + facts.f_resp) - pthread_of(native));

	if (at <= facts.f_pthread - RESOLVER)
		SET(facts.f_res, at);
}

static const char *probe(void)
{
	const char *untold = "libc does not tell how its threads are made";
	char *block = usched__block(), *robust = NULL, *resp;
	const uint32_t *size;
	const ptrdiff_t *rseq;
	size_t length = 0;

	if (WATCHED)
		return "a sanitizer follows native threads only";
	if ((getauxval(AT_HWCAP2) & ARCH_MAY_SET) != ARCH_MAY_SET)
		return "the processor or the kernel has no FSGSBASE";
	if (!dlsym)
		return untold;
	size = (const uint32_t *)dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
	rseq = (const ptrdiff_t *)dlsym(RTLD_DEFAULT, "__rseq_offset");
	resp = (char *)dlsym(RTLD_DEFAULT, "__resp");
	if (!size || !resp || !find_functions()
	    || !find_member("_thread_db_pthread_tid", &facts.f_tid)
	    || !find_member("_thread_db_pthread_list", &facts.f_list)
	    || !find_member("_thread_db_pthread_specific", &facts.f_specific)
	    || (syscall(SYS_get_robust_list, 0, &robust, &length) && errno != ENOSYS))
		return untold;
	facts.f_pthread = *size;
	facts.f_below = ARCH_TLS_ABOVE ? (*size + LINE - 1) & ~(size_t)(LINE - 1) : 0;
	facts.f_resp = resp - block;
	facts.f_robust = robust ? (size_t)(robust - pthread_of(block)) : 0;
	facts.f_rseq = rseq ? *rseq : 0;
	if (!is_right(block, robust))
		return "libc's threads are not as they should be";
	return NULL;
}

const char *uproc__probe_blocks(void)
{
	static const char *why = "";

	if (why && !*why)
		why = probe();
	return why;
}

/* ---- Objects ---- */

static void give_values(char *block, const struct segment *s)
{
	memcpy(block + s->sg_at, s->sg_image, s->sg_filled);
	memset(block + s->sg_at + s->sg_filled, 0, s->sg_size - s->sg_filled);
}

static bool is_linker(const char *name)
{
	const char *end = strrchr(name, '/');

	name = end ? end + 1 : name;
	return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64.so", 7) == 0;
}

/* Notes the variables of an object. If the object was loaded late, gives the variables
   initial values in all blocks, and no block is used again. */
static void note_segment(const struct dl_phdr_info *info, const ElfW(Phdr) *h, bool late)
{
	size_t index[] = { info->dlpi_tls_modid, 0 };
	const char *data = (const char *)(late ? address_of(index)
					       : info->dlpi_tls_data);
	struct segment *s = &segments[segments_used++];

	*s = (struct segment){
		.sg_object = info->dlpi_phdr, .sg_name = info->dlpi_name,
		.sg_at = data - usched__block(),
		.sg_image = (const char *)info->dlpi_addr + h->p_vaddr,
		.sg_filled = h->p_filesz, .sg_size = h->p_memsz,
	};
	if (late || !is_static(data))
		SET(once, true);
	if (late && is_static(data))
		for (struct own *o = all_blocks.ow_next; o != &all_blocks; o = o->ow_next)
			give_values(block_of(o), s);
	if ((size_t)((char *)&errno - data) < s->sg_size)
		libc = *s;
	else if (!late && is_static(data) && !is_linker(s->sg_name))
		return;
	s->sg_image = NULL;
}

static bool is_seen(const void *object)
{
	for (size_t i = 0; i < segments_used; i++)
		if (segments[i].sg_object == object)
			return true;
	if (segments_used == SEGMENTS)
		SET(once, true);
	return segments_used == SEGMENTS;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *late)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_TLS && h->p_memsz && !is_seen(info->dlpi_phdr))
			note_segment(info, h, *(bool *)late);
	}
	return 0;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *adds)
{
	(void)size;
	*(unsigned long long *)adds = info->dlpi_adds;
	return 1;
}

void uproc__look_at_loads(void)
{
	unsigned long long adds = 0;
	bool late = loads_seen != 0;

	dl_iterate_phdr(count_loads, &adds);
	lock(&pool_lock);
	if (adds != loads_seen)
		dl_iterate_phdr(note_object, &late);
	loads_seen = adds;
	unlock(&pool_lock);
}

void uproc__use_blocks(void)
{
	if (loads_seen)
		return;
	uproc__lists[0].ll_size = before() + behind();
	uproc__look_at_loads();
	for (size_t i = 0; i < segments_used; i++)
		if (segments[i].sg_image && *segments[i].sg_name)
			open_object(segments[i].sg_name,
				    RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* ---- Blocks ---- */

size_t uproc__block_room(void)
{
	return align(before() + behind()) + facts.f_align - LINE;
}

/* The dynamic linker's table of modules, which is the block's own, has room for 14 more.
   Reduces the table to the last module. The linker lets the table grow. */
static void trim_modules(char *block)
{
	size_t **table = (size_t **)(void *)&words(block)[!ARCH_TLS_ABOVE];
	size_t *old = *table - 2, n = *old, *smaller;   /* two words for each module */

	while (n > 0 && !(*table)[2 * n])
		n--;
	smaller = (size_t *)malloc((n + 2) * 2 * sizeof *smaller);
	if (!smaller)
		return;
	memcpy(smaller, old, (n + 2) * 2 * sizeof *smaller);
	*smaller = n;
	*table = smaller + 2;
	free(old);
}

/* Makes a block. Static TLS that is not used yet is zeros: objects that are loaded later
   may get it. */
static struct own *make_block(char **at)
{
	size_t size = before() + behind();
	void *memory = at ? (void *)align((uintptr_t)(at + 1)) : NULL;
	struct own *o;

	if (!at && posix_memalign(&memory, facts.f_align, size))
		return NULL;
	o = (struct own *)memset(memory, 0, size);
	if (allocate(block_of(o))) {
		trim_modules(block_of(o));
		o->ow_at = at;
		return o;
	}
	if (!at)
		free(memory);
	return NULL;
}

/* Fills in struct pthread of a block, for a thread that the native thread runs. */
static void fill(char *block, char *native)
{
	char *self = pthread_of(block), *list = self + facts.f_list;
	char *robust = self + facts.f_robust, *specific = self + facts.f_specific;
	void *dtv = words(block)[!ARCH_TLS_ABOVE];

	memcpy(self, pthread_of(native), facts.f_pthread);
	if (!ARCH_TLS_ABOVE) {
		words(block)[0] = words(block)[2] = block;
		words(block)[1] = dtv;
		words(block)[3] = (void *)1;    /* malloc(): there are native threads */
	}
	words(list)[0] = words(list)[1] = list;         /* fork() takes it out */
	if (facts.f_robust) {
		words(robust)[-1] = words(robust)[0] = robust;
		words(robust)[2] = NULL;
	}
	memset(specific - KEYS * 16, 0, KEYS * 16 + KEYS * sizeof(void *) + 1);
	*words(specific) = specific - KEYS * 16;
	if (facts.f_res) {
		memset(self + facts.f_res, 0, RESOLVER);
		*words(block + facts.f_resp) = self + facts.f_res;
	}
	if (facts.f_rseq) {             /* cpu_id_start, cpu_id, rseq_cs */
		memset(block + facts.f_rseq, 0, 16);
		((int32_t *)(void *)(block + facts.f_rseq))[1] = NO_CPU;
	}
}

/* The function of ob_adopt: the block is about to be set on this native thread. */
static void adopt_block(char *block, char *native)
{
	memcpy(pthread_of(block) + facts.f_tid, pthread_of(native) + facts.f_tid,
	       sizeof(pid_t));
}

/* The function of a native thread: takes libc's state over from the block. */
static void *take_over(void *block)
{
	memcpy(usched__block() + libc.sg_at, (char *)block + libc.sg_at, libc.sg_size);
	return NULL;
}

/* If a thread has ended on the block, there is state of libc's. */
static void free_block(char *block, bool ended)
{
	pthread_t t;

	if (ended && pthread_create(&t, NULL, take_over, block) == 0)
		pthread_join(t, NULL);
	deallocate(block, false);
	if (own_of(block)->ow_at)
		*own_of(block)->ow_at = NULL;
	else
		free(own_of(block));
}

/* If `keep', leaves the block on its stack, or puts the block into the pool if there is
   room. Otherwise frees it. */
static void put_block(char *block, bool ended, bool keep)
{
	struct own *o = own_of(block);
	bool kept;

	lock(&pool_lock);
	kept = keep && (o->ow_at || pooled < POOLED) && !GET(once);
	o->ow_procs = NULL;
	if (kept && !o->ow_at) {
		o->ow_pooled = all_blocks.ow_pooled;
		all_blocks.ow_pooled = o;
		pooled++;
	} else if (!kept) {
		o->ow_prev->ow_next = o->ow_next;
		o->ow_next->ow_prev = o->ow_prev;
	}
	unlock(&pool_lock);
	if (!kept)
		free_block(block, ended);
}

/* Takes a block from the pool, or returns NULL. Adds `made', unless it is NULL. */
static struct own *take_locked(struct own *made)
{
	struct own *o = made ? made : all_blocks.ow_pooled;

	if (made) {
		o->ow_next = all_blocks.ow_next;
		o->ow_prev = &all_blocks;
		all_blocks.ow_next = o->ow_next->ow_prev = o;
	} else if (o) {
		all_blocks.ow_pooled = o->ow_pooled;
		pooled--;
	}
	return o;
}

char *uproc__new_block(const struct uprocs *r, char **at)
{
	struct own *o = at && *at ? own_of(*at) : NULL, *made = NULL;
	unsigned long long then = 0;

	for (;;) {
		lock(&pool_lock);
		if (!o && (made ? then == loads_seen : !at))
			o = take_locked(made);
		then = loads_seen;
		if (o)
			o->ow_procs = r;
		unlock(&pool_lock);
		if (o)
			break;
		if (made)               /* an object was loaded meanwhile */
			free_block(block_of(made), false);
		made = make_block(at);
		if (!made)
			return NULL;
	}
	if (at)
		*at = block_of(o);
	return block_of(o);
}

void uproc__drop_block(char *block)
{
	put_block(block, true, true);
}

void uproc__free_block(char *block)
{
	put_block(block, true, false);
}

/* Variables of a thread that has not ended may have destructors, which libc would call
   for the next thread. So these blocks are freed. */
void uproc__drop_blocks(const struct uprocs *r)
{
	struct own *o;

	do {
		lock(&pool_lock);
		o = all_blocks.ow_next;
		while (o != &all_blocks && o->ow_procs != r)
			o = o->ow_next;
		unlock(&pool_lock);
		if (o != &all_blocks)
			put_block(block_of(o), false, false);
	} while (o != &all_blocks);
}

/* ---- libc's internal signals ---- */

/* The kernel's struct sigaction. */
static struct action {
	void        (*at_handler)(int sig, siginfo_t *info, void *context);
	unsigned long at_flags;
	void        (*at_restorer)(void);
	uint64_t      at_mask;
} internal[INTERNALS];                  /* libc's actions */

static void on_internal(int sig, siginfo_t *info, void *context)
{
	char *self = usched__block(), *native = usched__current->s_block;

	if (native)
		usched__use_block(native);
	internal[sig - INTERNAL].at_handler(sig, info, context);
	usched__use_block(self);
}

/* Puts on_internal() before libc's handlers. libc installs each at the first use. */
static void catch_internal(void)
{
	struct action now;

	for (int i = 0; i < INTERNALS; i++) {
		if (syscall(SYS_rt_sigaction, INTERNAL + i, NULL, &now,
			    sizeof now.at_mask)
		    || (uintptr_t)now.at_handler <= (uintptr_t)SIG_IGN
		    || now.at_handler == on_internal)
			continue;
		internal[i] = now;
		now.at_handler = on_internal;
		syscall(SYS_rt_sigaction, INTERNAL + i, &now, NULL, sizeof now.at_mask);
	}
}

/* ---- Threads ---- */

/* The function of ob_leave. Threads of posix/, where each load tells, have left. */
static void leave_own(void)
{
	const struct usched *s = usched__current;

	if (!s->s_block || s->s_block == usched__block())
		return;
	uproc__look_at_loads();
	uproc__leave_block();
}

/* Makes the calling thread run on the block. */
static void enter_block(char *block)
{
	struct usched *s = usched__current;
	char *native = s->s_block;

	if (!native) {
		native = usched__block();
		find_resolver(native);
		catch_internal();
		SET(usched__observer.ob_adopt, &adopt_block);
		SET(usched__observer.ob_leave, &leave_own);
	}
	fill(block, native);
	usched__set_block(s, block);
	uselocale(LC_GLOBAL_LOCALE);
	init_ctype();
}

void uproc__destroy_variables(void)
{
	call_destructors();
}

void uproc__leave_block(void)
{
	char *block = usched__block();
	struct usched *s;

	call_destructors();
	s = usched__current;
	usched__set_block(s, s->s_block);
	for (size_t i = 0; i < segments_used; i++)
		if (segments[i].sg_image)
			give_values(block, &segments[i]);
	put_block(block, true, true);
}

static void begin_on_block(struct usched__wrap *w)
{
	struct own *o = (struct own *)(void *)((char *)w - offsetof(struct own, ow_wrap));

	enter_block(block_of(o));
	if (o->ow_serve)
		o->ow_serve(o->ow_fd, o->ow_arg);
	else
		o->ow_func(o->ow_arg);
	leave_own();
}

void *uproc__begin_on(char *block, const struct ustack_how *how, void (*func)(void *),
		      void *arg, const void *where)
{
	struct own *o = own_of(block);
	const struct usched__wrap *w = (const struct usched__wrap *)arg;

	o->ow_serve = how->h_serve;
	o->ow_fd = how->h_fd;
	o->ow_func = func;
	o->ow_arg = arg;
	o->ow_wrap = (struct usched__wrap){ begin_on_block, func, where };
	if (how->h_serve)
		o->ow_wrap.wr_func = (void (*)(void *))(void (*)(void))how->h_serve;
	else if (func == usched__wrapped)
		o->ow_wrap = (struct usched__wrap){ begin_on_block, w->wr_func,
						    w->wr_where };
	return &o->ow_wrap;
}

int uproc__on_native(int (*call)(pthread_mutex_t *mutex), pthread_mutex_t *mutex)
{
	char *self = usched__block(), *native = usched__current->s_block;
	int rc;

	if (!native)
		return call(mutex);
	usched__use_block(native);
	rc = call(mutex);
	usched__use_block(self);
	return rc;
}

/* ---- Fork ---- */

/* libc would take the stack of the native thread for a stack of the block's thread, and
   use it twice. So the task ends without libc. */
void uproc__end_forked(void)
{
	if (!on_block)
		pthread_exit(NULL);
	for (;;)
		syscall(SYS_exit, 0);
}

void uproc__hold_blocks(int on)
{
	if (!on) {
		unlock(&pool_lock);
		return;
	}
	lock(&pool_lock);
	forking = usched__current->s_block;
}

/* In the child, the native thread goes on with the block of the thread that called
   fork(). libc has made the tid in this block right. */
void uproc__blocks_forked(void)
{
	pooled = 0;
	all_blocks = (struct own){ .ow_next = &all_blocks, .ow_prev = &all_blocks };
	if (!forking)
		return;
	take_locked(own_of(usched__block()));
	/* libc uses the native thread's stack again, where the kernel writes cpu_id. */
	if (facts.f_rseq)
		syscall(SYS_rseq, forking + facts.f_rseq, RSEQ_SIZE, RSEQ_UNREGISTER,
			RSEQ_SIGNATURE);
	on_block = true;
}

#else

struct layout_list uproc__lists[UPROC_LISTS];

const char *uproc__probe_blocks(void)
{
	return "not on this machine";
}

int uproc__on_native(int (*call)(pthread_mutex_t *mutex), pthread_mutex_t *mutex)
{
	return call(mutex);
}

void uproc__end_forked(void)
{
	pthread_exit(NULL);
}

void uproc__use_blocks(void)                            { }
void uproc__look_at_loads(void)                         { }
size_t uproc__block_room(void)                          { return 0; }
void uproc__drop_block(char *block)                     { (void)block; }
void uproc__free_block(char *block)                     { (void)block; }
void uproc__drop_blocks(const struct uprocs *r)         { (void)r; }
void uproc__leave_block(void)                           { }
void uproc__destroy_variables(void)                     { }
void uproc__hold_blocks(int on)                         { (void)on; }
void uproc__blocks_forked(void)                         { }

char *uproc__new_block(const struct uprocs *r, char **at)
{
	(void)r, (void)at;
	return NULL;
}

void *uproc__begin_on(char *block, const struct ustack_how *how, void (*func)(void *),
		      void *arg, const void *where)
{
	(void)block, (void)how, (void)func, (void)where;
	return arg;
}

#endif
