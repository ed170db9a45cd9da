/* SPDX-License-Identifier: MIT */
/*
 * uposix_block.c: gives each thread a TLS block of its own, as native threads have. So
 * errno, all thread-local variables of the program and of libraries, and the state that
 * libc keeps for a thread, belong to the thread.
 *
 * A block is made by the dynamic linker's own function. It ends with libc's struct
 * pthread, to which the thread pointer points. This struct is copied from the native
 * thread that runs the new thread, except for what must be the thread's own. The switch
 * sets the thread pointer: usched__set_block().
 *
 *	uposix__new_block()     makes a block, or takes one that an ended thread has left
 *	uposix__enter_block()   is called when the thread begins
 *	adopt()                 is called when the thread has another native thread
 *	uposix__leave_block()   is called when the thread ends
 *
 * usched's own thread-local variables are in each block at the same offset, so code that
 * uses them needs no change. They are copied from the native thread's block.
 *
 * Handlers of libc's internal signals expect the native thread's block, s_block.
 *
 * The blocks of ended threads keep libc's state, such as a cache of malloc(), for later
 * threads. All other variables get their initial values again. To give a block back, a
 * native thread takes libc's state over and ends, so libc frees the state.
 *
 * Offsets in struct pthread are those that libc tells debuggers. probe() compares each
 * with the calling thread. If any differs, threads share the native thread's block.
 */
#include "uposix_set.h"

#include "../arch/arch.h"
#include "../src/base/sim.h"

bool uposix__is_loaded, uposix__blocks; /* see uposix_set.h */

#if defined(__x86_64__) && !defined(USCHED_SIM)

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

enum {
	FSGSBASE  = 2,                  /* the bit of AT_HWCAP2: user code may set FS */
	KEYS      = 32,                 /* keys in the first level of pthread's table */
	RESOLVER  = 568,                /* bytes of struct __res_state */
	NO_CPU    = -2,                 /* rseq's cpu_id if the area is not registered */
	RSEQ_SIZE = 32, RSEQ_UNREGISTER = 1, RSEQ_SIGNATURE = 0x53053053, /* libc's */
	SEGMENTS  = 256,
	POOLED    = 1024,               /* the most blocks that wait for a thread */
	LINE      = 64,                 /* bytes: the least alignment of a block */
	INTERNALS = 2,                  /* signals 32 and 33 */
};

/* A function of the dynamic linker: returns the address for a module and an offset. */
extern void *__tls_get_addr(size_t *index);

/* Bytes from the thread pointer, or sizes. Constant after probe(). */
static struct {
	size_t    f_pthread;            /* size of struct pthread */
	size_t    f_tid, f_list, f_specific, f_robust;
	ptrdiff_t f_rseq;               /* 0: libc has registered no area */
	ptrdiff_t f_resp;               /* the pointer to the resolver's state */
	size_t    f_res;                /* that state; 0: not known yet */
	size_t    f_static;             /* size of all static TLS and struct pthread */
	size_t    f_align;
} facts;

static void *(*allocate)(void *block);
static void (*deallocate)(void *block, bool all);
static void (*init_ctype)(void);
static void (*call_destructors)(void);  /* of the variables in the caller's block */

/* Static TLS of objects that were loaded before the first thread, and stay loaded.
   Constant after the first look. */
static struct segment {
	const char *sg_name;            /* of the object's file */
	ptrdiff_t   sg_at;              /* from the thread pointer */
	const char *sg_image;
	size_t      sg_filled, sg_size;
} segments[SEGMENTS], ours, libc;       /* the latter two are not in the array */
static size_t segments_used;
static bool once;                       /* no block is used again, since some object has
					   other TLS; atomic */

/* Blocks that ended threads have left. A block's first word is the next one's address.
   The lock, taken after uposix__lock, also protects p_block of all records. */
static struct uwait_lock pool_lock;
static char *pool;
static size_t pooled;
static unsigned fills;                  /* calls of uposix__fill_blocks() */

/* The native block of the thread that forked last; NULL: it had no block of its own. */
static char *forking;
static bool on_block;                   /* this process began as such a child */

static void **words(char *p)
{
	return (void **)(void *)p;
}

/* ---- What libc is like ---- */

/* Sets *at to the offset of a member of struct pthread. Returns false if libc does not
   tell the offset. */
static bool find_member(const char *name, size_t *at)
{
	const uint32_t *tells = dlsym(RTLD_DEFAULT, name);      /* bits, number, offset */

	if (tells)
		*at = tells[2];
	return tells;
}

/* Returns whether what was found is so in the calling native thread. */
static bool is_right(char *self, const char *robust)
{
	return *words(self) == self && *words(self + 16) == self
	    && *(pid_t *)(void *)(self + facts.f_tid) == gettid()
	    && facts.f_robust + 24 <= facts.f_pthread
	    && *words(self + facts.f_robust - 8) == robust
	    && *words(self + facts.f_specific) == self + facts.f_specific - KEYS * 16;
}

/* Finds the resolver's state, which is in struct pthread in all threads but main().
   Called on processors, where dlsym() might wait for a thread of the processor. */
static void find_resolver(char *self)
{
	size_t at = (size_t)((char *)*words(self + facts.f_resp) - self);

	if (at <= facts.f_pthread - RESOLVER)
		__atomic_store_n(&facts.f_res, at, __ATOMIC_RELAXED);
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

	if (!find_function("_dl_allocate_tls", &allocate)
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

/* Finds out whether threads can have blocks. Returns NULL, or why they cannot. */
const char *uposix__probe_blocks(void)
{
	const uint32_t *size = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
	const ptrdiff_t *rseq = dlsym(RTLD_DEFAULT, "__rseq_offset");
	char *self, *robust = NULL, *resp = dlsym(RTLD_DEFAULT, "__resp");
	size_t length = 0;

	if (!uposix__is_loaded)
		return "usched is linked into the program";
	if (!(getauxval(AT_HWCAP2) & FSGSBASE))
		return "the processor or the kernel has no FSGSBASE";
	self = usched__block();
	if (!size || !resp || !find_functions()
	    || !find_member("_thread_db_pthread_tid", &facts.f_tid)
	    || !find_member("_thread_db_pthread_list", &facts.f_list)
	    || !find_member("_thread_db_pthread_specific", &facts.f_specific)
	    || syscall(SYS_get_robust_list, 0, &robust, &length))
		return "libc does not tell how its threads are made";
	facts.f_pthread = *size;
	facts.f_resp = resp - self;
	facts.f_robust = (size_t)(robust - self);
	facts.f_rseq = rseq ? *rseq : 0;
	return is_right(self, robust) ? NULL : "libc's threads are not as they should be";
}

/* Returns whether thread-local data of the caller is in its block, not elsewhere. */
static bool is_static(const char *data)
{
	return data && (size_t)(usched__block() - data) <= facts.f_static;
}

void uposix__note_segment(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			  enum uposix_owner owner, bool late)
{
	const char *data = info->dlpi_tls_data;
	struct segment s = {
		.sg_name = info->dlpi_name, .sg_at = data - usched__block(),
		.sg_image = (const char *)info->dlpi_addr + h->p_vaddr,
		.sg_filled = h->p_filesz, .sg_size = h->p_memsz,
	};

	if (owner == UPOSIX_OURS)
		ours = s;
	else if (owner == UPOSIX_LIBC)
		libc = s;
	else if (late || !is_static(data) || segments_used == SEGMENTS)
		__atomic_store_n(&once, true, __ATOMIC_RELAXED);
	else if (owner == UPOSIX_OTHER)
		segments[segments_used++] = s;
}

void uposix__keep_segments(void)
{
	for (size_t i = 0; i < segments_used; i++)
		if (*segments[i].sg_name)
			dlopen(segments[i].sg_name,
			       RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* ---- Blocks ---- */

/* Returns the bytes of a block up to struct pthread. */
static size_t before_pthread(void)
{
	return (facts.f_static + facts.f_align - facts.f_pthread)
		& ~(facts.f_align - 1);
}

/* Makes a block. Static TLS that is not used yet is zeros: objects that are loaded later
   may get it. */
static char *make_block(void)
{
	size_t before = before_pthread(), size = before + facts.f_pthread;
	void *memory = NULL;
	char *block;

	if (posix_memalign(&memory, facts.f_align, size))
		return NULL;
	memset(memory, 0, size);
	block = allocate((char *)memory + before);
	if (!block)
		free(memory);
	return block;
}

/* Fills in struct pthread of a block, for a thread that the native thread runs. */
static void fill(char *block, const char *native)
{
	char *list = block + facts.f_list;
	char *robust = block + facts.f_robust, *specific = block + facts.f_specific;
	void *dtv = words(block)[1];

	memcpy(block, native, facts.f_pthread);
	words(block)[0] = words(block)[2] = block;
	words(block)[1] = dtv;
	words(list)[0] = words(list)[1] = list;         /* fork() takes it out */
	words(robust)[-1] = words(robust)[0] = robust;
	words(robust)[2] = NULL;
	memset(specific - KEYS * 16, 0, KEYS * 16 + KEYS * sizeof(void *) + 1);
	*words(specific) = specific - KEYS * 16;
	if (facts.f_res) {
		memset(block + facts.f_res, 0, RESOLVER);
		*words(block + facts.f_resp) = block + facts.f_res;
	}
	if (facts.f_rseq) {             /* cpu_id_start, cpu_id, rseq_cs */
		memset(block + facts.f_rseq, 0, 16);
		((int32_t *)(void *)(block + facts.f_rseq))[1] = NO_CPU;
	}
}

/* The function of ob_adopt: the block is about to be set on this native thread. */
static void adopt(char *block, const char *native)
{
	memcpy(block + facts.f_tid, native + facts.f_tid, sizeof(pid_t));
	memcpy(block + ours.sg_at, native + ours.sg_at, ours.sg_size);
}

static void renew(char *block)
{
	for (size_t i = 0; i < segments_used; i++) {
		const struct segment *s = &segments[i];

		memcpy(block + s->sg_at, s->sg_image, s->sg_filled);
		memset(block + s->sg_at + s->sg_filled, 0, s->sg_size - s->sg_filled);
	}
}

/* The function of a native thread: takes libc's state over from the block. */
static void *take_over(void *block)
{
	memcpy(usched__block() + libc.sg_at, (char *)block + libc.sg_at, libc.sg_size);
	return NULL;
}

/* A block that no thread has had has no state of libc's. */
static void free_block(char *block)
{
	bool began = *words(block + facts.f_resp) == block + facts.f_res;
	pthread_t t;

	if (began && pthread_create(&t, NULL, take_over, block) == 0)
		pthread_join(t, NULL);
	deallocate(block, false);
	free(block - before_pthread());
}

/* Puts the block of an ended thread into the pool, or frees the block. */
static void put_block(char *block)
{
	bool kept = false;

	uwait_lock(&pool_lock);
	if (pooled < POOLED && !__atomic_load_n(&once, __ATOMIC_RELAXED)) {
		*words(block) = pool;
		pool = block;
		pooled++;
		kept = true;
	}
	uwait_unlock(&pool_lock);
	if (!kept)
		free_block(block);
}

/* Gives `p' a block of the pool, if there is one, and returns whether there was. Sets
   *seen to `fills'. */
static bool take_pooled(struct uposix_thread *p, unsigned *seen)
{
	uwait_lock(&pool_lock);
	*seen = fills;
	p->p_block = pool;
	if (pool) {
		pool = *words(pool);
		pooled--;
	}
	uwait_unlock(&pool_lock);
	return p->p_block;
}

/* Gives `p' a block that was made. Returns false if an object was loaded meanwhile. */
static bool take_made(struct uposix_thread *p, char *made, unsigned seen)
{
	uwait_lock(&pool_lock);
	if (fills == seen)
		p->p_block = made;
	uwait_unlock(&pool_lock);
	return p->p_block;
}

int uposix__new_block(struct uposix_thread *p)
{
	unsigned seen;
	char *made;

	if (!uposix__blocks)
		return 0;
	while (!take_pooled(p, &seen)) {
		made = make_block();
		if (!made)
			return -ENOMEM;
		if (take_made(p, made, seen))
			break;
		free_block(made);
	}
	return 0;
}

void uposix__drop_block(struct uposix_thread *p)
{
	char *block;

	uwait_lock(&pool_lock);
	block = p->p_block;
	p->p_block = NULL;
	uwait_unlock(&pool_lock);
	if (block)
		put_block(block);
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
	internal[sig - UPOSIX_INTERNAL].at_handler(sig, info, context);
	usched__use_block(self);
}

/* Puts on_internal() before libc's handlers. libc installs each at its first use. */
static void catch_internal(void)
{
	struct action now;

	for (int i = 0; i < INTERNALS; i++) {
		if (syscall(SYS_rt_sigaction, UPOSIX_INTERNAL + i, NULL, &now,
			    sizeof now.at_mask)
		    || (uintptr_t)now.at_handler <= (uintptr_t)SIG_IGN
		    || now.at_handler == on_internal)
			continue;
		internal[i] = now;
		now.at_handler = on_internal;
		syscall(SYS_rt_sigaction, UPOSIX_INTERNAL + i, &now, NULL,
			sizeof now.at_mask);
	}
}

/* ---- Threads ---- */

void uposix__enter_block(struct uposix_thread *me)
{
	struct usched *s = usched__current;
	char *native = s->s_block;

	if (!native) {
		native = usched__block();
		find_resolver(native);
		catch_internal();
		__atomic_store_n(&usched__observer.ob_adopt, adopt, __ATOMIC_RELAXED);
	}
	fill(me->p_block, native);
	adopt(me->p_block, native);
	usched__set_block(s, me->p_block);
	uselocale(LC_GLOBAL_LOCALE);
	init_ctype();
}

void uposix__leave_block(struct uposix_thread *me)
{
	struct usched *s;

	call_destructors();             /* keys' destructors may have added some */
	renew(me->p_block);
	s = usched__current;
	usched__set_block(s, s->s_block);
	uposix__drop_block(me);
}

void uposix__end_variables(void)
{
	call_destructors();
}

int uposix__on_native(int (*call)(pthread_mutex_t *mutex), pthread_mutex_t *mutex)
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

/* ---- Objects that are loaded late ---- */

static void fill_one(char *to, const char *image, const ElfW(Phdr) *h)
{
	memcpy(to, image, h->p_filesz);
	memset(to + h->p_filesz, 0, h->p_memsz - h->p_filesz);
}

/* Gives the static TLS of an object its initial values in all blocks but those of native
   threads. Called before the object's constructors run. */
void uposix__fill_blocks(const struct dl_phdr_info *info, const ElfW(Phdr) *h)
{
	const char *image = (const char *)info->dlpi_addr + h->p_vaddr;
	char *data = __tls_get_addr((size_t[]){ info->dlpi_tls_modid, 0 });
	ptrdiff_t at = data - usched__block();

	if (!is_static(data))           /* each block gets its own when asked */
		return;
	uwait_lock(&uposix__lock);
	uwait_lock(&pool_lock);
	fills++;
	for (struct uposix_thread *p = uposix__all; p; p = p->p_next)
		if (p->p_block)
			fill_one(p->p_block + at, image, h);
	for (char *block = pool; block; block = *words(block))
		fill_one(block + at, image, h);
	uwait_unlock(&pool_lock);
	uwait_unlock(&uposix__lock);
}

/* ---- Fork ---- */

/* libc would take the stack of the native thread for a stack of the block's thread, and
   use it twice. So the task ends without libc. */
void uposix__end_native(void)
{
	if (!on_block)
		pthread_exit(NULL);
	for (;;)
		syscall(SYS_exit, 0);
}

static void hold_pool(int on)
{
	(on ? uwait_lock : uwait_unlock)(&pool_lock);
	if (on)
		forking = usched__current->s_block;
}

/* In the child, the native thread goes on with the block of the thread that called
   fork(). libc has made the tid in this block right. */
static void blocks_forked(void)
{
	pool = NULL;
	pooled = 0;
	if (!forking)
		return;
	/* libc uses the native thread's stack again, where the kernel writes cpu_id. */
	if (facts.f_rseq)
		syscall(SYS_rseq, forking + facts.f_rseq, RSEQ_SIZE, RSEQ_UNREGISTER,
			RSEQ_SIGNATURE);
	on_block = true;
}

UPOSIX_AT_FORK(UPOSIX_BLOCKS, hold_pool, blocks_forked)

#else

#include <pthread.h>

const char *uposix__probe_blocks(void)
{
	return "not on this machine";
}

void uposix__note_segment(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			  enum uposix_owner owner, bool late)
{
	(void)info, (void)h, (void)owner, (void)late;
}

int uposix__new_block(struct uposix_thread *p)
{
	(void)p;
	return 0;
}

void uposix__drop_block(struct uposix_thread *p)
{
	(void)p;
}

void uposix__enter_block(struct uposix_thread *me)
{
	(void)me;
}

void uposix__leave_block(struct uposix_thread *me)
{
	(void)me;
}

void uposix__end_variables(void)
{
}

void uposix__fill_blocks(const struct dl_phdr_info *info, const ElfW(Phdr) *h)
{
	(void)info, (void)h;
}

void uposix__keep_segments(void)
{
}

int uposix__on_native(int (*call)(pthread_mutex_t *mutex), pthread_mutex_t *mutex)
{
	return call(mutex);
}

void uposix__end_native(void)
{
	pthread_exit(NULL);
}

#endif
