/* SPDX-License-Identifier: MIT */
/*
 * uposix_tls.c: finds loaded objects that several threads on one processor may disturb.
 * Such an object has thread-local variables, which all threads of a native thread share;
 * or it is a memory allocator, during whose calls no other thread may run. The first
 * pthread_create() looks for such objects. Each later load of an object looks again
 * before the object's constructors run: an object first calls __gmon_start__(), a
 * function of profilers that uposix_load.c defines for this purpose. Objects without that
 * call are found by the next pthread_create().
 *
 * dl_iterate_phdr() takes a lock of libc. If another thread held the lock at a fork, libc
 * does not release the lock in the child. So a child looks only after it has loaded an
 * object itself. Until then it knows what its parent knew.
 *
 * With slices, each look also notes code that no signal may make give way.
 *
 * The first look decides who has the variables. By default each thread gets a block of
 * its own if some object has variables that are not known to be harmless:
 * uproc_block.c. With UPOSIX_TLS=exchange such variables are exchanged.
 */
#include "uposix_set.h"

#include "../arch/arch.h"
#include "../src/base/lock.h"
#include "../src/base/sim.h"
#include "../src/core/outside.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	RANGES  = 64,                   /* the most ranges of code where threads must not
					   give way */
	OBJECTS = 1024,                 /* the most objects that are remembered */
	OWN     = 32,                   /* bytes of thread-local variables in usched
					   itself */
	NAMES   = 160,                  /* characters of names in a message */
};

/*
 * Prefixes of names of objects whose thread-local variables belong to the native thread.
 * usched switches errno, and the exception state of C++, with each thread.
 */
static const char *const native[] = {
	"ld-linux", "ld64.so", "libc.so", "libc-", "libdl", "libpthread", "librt.",
	"libusched", "libstdc++", "libc++", "libgcc_s", "linux-vdso",
};

/*
 * Prefixes of names of objects whose variables do no harm: caches, states of random
 * numbers and texts of errors. No call leaves them half changed during a wait.
 */
static const char *const harmless[] = {
	"libcrypto", "libssl", "libuuid", "libsodium", "libjemalloc", "libtcmalloc",
	"libmimalloc", "libsnmalloc", "libblkid", "libmount", "libfdisk", "libsmartcols",
	"libcom_err", "libgnutls", "libjpeg", "libturbojpeg", "libunwind",
};

/*
 * Prefixes of names of objects that manage native threads and their stacks themselves, so
 * that they cannot run in threads of usched.
 */
static const char *const machines[] = { "libjli", "libjvm" };
static const char *const sanitizers[] = {
	"libasan", "libtsan", "libmsan", "liblsan", "libclang_rt",
};

static const char *const allocators[] = { "libjemalloc", "libtcmalloc", "libmimalloc" };

/*
 * Prefixes of names of further objects, besides those of native[], that are not
 * interrupted: they hold locks of libc, or are called with such locks held.
 */
static const char *const locking[] = { "libnss_", "libresolv", "libunwind" };

/* Code of allocators, and all other code that is not interrupted. */
static struct range {
	uintptr_t r_from, r_to;
	bool      r_allocates;
} ranges[RANGES];
static size_t ranges_used;              /* atomic */
static struct uwait_lock looking;
static bool inherited;                  /* true in the child of a process that has looked.
					   The lock `looking' protects this variable and
					   the next ones */
static unsigned long long seen;         /* count of objects loaded up to the last look,
					   or 0 before the first look */
static const void *known[OBJECTS];
static size_t known_used;
static const char *no_blocks;           /* why threads cannot have blocks, or NULL */
static bool wants;                      /* variables of some object are to be the
					   thread's own */
static char wanting[NAMES];             /* names of objects whose variables are to be the
					   thread's own */
static size_t at_start;                 /* count of objects loaded at the start */
static int refused_some;                /* 0 or ENOTSUP; atomic */

static bool begins(const char *name, const char *const *with, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, with[i], strlen(with[i])) == 0)
			return true;
	return false;
}

#define BEGINS(name, list) begins(name, list, sizeof list / sizeof list[0])

static bool is_in(const struct range *r, uintptr_t where)
{
	return where - r->r_from < r->r_to - r->r_from;
}

/* Returns the range that `where' is in, or NULL. */
static const struct range *range_of(uintptr_t where)
{
	size_t n = __atomic_load_n(&ranges_used, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < n; i++)
		if (is_in(&ranges[i], where))
			return &ranges[i];
	return NULL;
}

static bool is_known(const void *object)
{
	for (size_t i = 0; i < known_used; i++)
		if (known[i] == object)
			return true;
	if (known_used == OBJECTS)
		return seen != 0;
	known[known_used++] = object;
	return false;
}

/* Returns true if usched is compiled into the object. */
static bool is_ours(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && (uintptr_t)harmless - info->dlpi_addr
		    - h->p_vaddr < h->p_memsz)
			return true;
	}
	return false;
}

/* Notes code of an object if threads must not give way there. If the program has an
   allocator of its own, usched itself calls that. */
static void note_code(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
		      const char *name)
{
	size_t n = ranges_used;
	struct range r = { info->dlpi_addr + h->p_vaddr, 0, BEGINS(name, allocators) };

	r.r_to = r.r_from + h->p_memsz;
	if (!(r.r_allocates || is_in(&r, (uintptr_t)malloc) || is_ours(info)
	      || BEGINS(name, native) || BEGINS(name, locking)
	      || strstr(info->dlpi_name, "/gconv/")) || n == RANGES)
		return;
	ranges[n] = r;
	__atomic_store_n(&ranges_used, n + 1, __ATOMIC_RELEASE);
}

static void refuse(void)
{
	__atomic_store_n(&refused_some, ENOTSUP, __ATOMIC_RELAXED);
}

/* Returns true if the segment has a note of Go's linker. */
static bool has_note_of_go(const struct dl_phdr_info *info, const ElfW(Phdr) *h)
{
	const char *at = (const char *)(info->dlpi_addr + h->p_vaddr);
	const char *end = at + h->p_memsz;
	ElfW(Nhdr) note;

	while ((size_t)(end - at) >= sizeof note) {
		memcpy(&note, at, sizeof note);
		at += sizeof note;
		if (note.n_namesz == 4 && end - at >= 4 && memcmp(at, "Go\0", 4) == 0)
			return true;
		at += (((size_t)note.n_namesz + 3) & ~(size_t)3)
		    + (((size_t)note.n_descsz + 3) & ~(size_t)3);
		if (at > end)
			break;
	}
	return false;
}

/*
 * Returns why a process with this object cannot use threads of usched, or NULL if the
 * process can.
 */
static const char *why_refused(const struct dl_phdr_info *info, const char *name)
{
	if (BEGINS(name, sanitizers))
		return "a sanitizer follows native threads only";
	if (BEGINS(name, machines))
		return "a Java machine stops threads and guards their stacks itself";
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE
		    && has_note_of_go(info, &info->dlpi_phdr[i]))
			return "Go runs its threads itself";
	return NULL;
}

static const char *name_of(const struct dl_phdr_info *info)
{
	const char *name = info->dlpi_name, *end = strrchr(name, '/');

	return end ? end + 1 : *name ? name : program_invocation_short_name;
}

static void tell_refused(const char *name, const char *why)
{
	uposix__tell("%s cannot be run over usched: %s. Run it natively", name, why);
}

/* Reports shared variables. `why' is why they cannot be exchanged; NULL: they can. */
static void tell_shared(const ElfW(Phdr) *h, const char *name, const char *why)
{
	uposix__tell("%s has %lu bytes of thread-local variables, which the threads of a"
		     " processor share%s%s. %s", name, (unsigned long)h->p_memsz,
		     why ? ", and cannot be exchanged: " : "", why ? why : "",
		     !no_blocks ? "If it fails, try usched-run --tls own"
		     : why ? "A value that is kept there over a wait is lost: run it"
		     " natively" : "If it fails, try usched-run --tls exchange");
}

static void add_wanting(const char *name)
{
	size_t length = strlen(wanting), more = strlen(name);

	wants = true;
	if (length + more + 3 > sizeof wanting)
		return;
	if (length) {
		memcpy(wanting + length, ", ", 2);
		length += 2;
	}
	memcpy(wanting + length, name, more + 1);
}

static void look_at_variables(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			      const char *name, bool late)
{
	bool exchanges = uposix__conf.c_tls == UPOSIX_EXCHANGE;
	bool yields = SIMULATED && strncmp(name, "libstdc++", 9) == 0;  /* between
					   std::call_once() and pthread_once() */
	bool shares = h->p_memsz > (is_ours(info) ? OWN : 0)
		&& (!*info->dlpi_name
		    || !(BEGINS(name, native) || BEGINS(name, harmless))
		    || (yields && !seen));
	const char *why = "usched is in it";

	if (!shares || (seen && uposix__blocks))
		return;
	if (!seen && !no_blocks) {
		add_wanting(name);
		return;
	}
	if (!is_ours(info))
		why = exchanges ? uposix__choose(info, h, late)
			: uposix__why_shared(info, late);
	if (why || !exchanges)
		tell_shared(h, name, why);
}

/* ---- Slices ---- */

/*
 * A signal makes a thread give way where it computes in code of the program or of a
 * library that holds no lock of libc, the dynamic linker, an allocator or usched. Such
 * code may be called with the linker's lock held: by dlopen() and dl_iterate_phdr(). So
 * no thread gives way while its native thread holds one of these two locks.
 */
static const pthread_mutex_t *loads;    /* the lock of loads; the lock of
					   dl_iterate_phdr() follows */

static bool holds(const pthread_mutex_t *m, pid_t me)
{
	return m->__data.__owner == me && m->__data.__count > 0
		&& m->__data.__kind == PTHREAD_MUTEX_RECURSIVE;
}

/* Looks for the lock of dl_iterate_phdr(), which calls this, in struct rtld_global. */
static int find_loads(struct dl_phdr_info *info, size_t size, void *global)
{
	const ElfW(Sym) *symbol = NULL;
	const pthread_mutex_t *m;
	const char *at = global;
	Dl_info unused;

	(void)info, (void)size;
	if (!at || !dladdr1(at, &unused, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return 1;
	for (size_t i = sizeof *m; i + sizeof *m <= symbol->st_size; i += sizeof(long)) {
		m = (const pthread_mutex_t *)(const void *)(at + i);
		if (holds(m, gettid()) && m[-1].__data.__kind == PTHREAD_MUTEX_RECURSIVE)
			loads = m - 1;
	}
	return 1;
}

bool uposix__may_stop_at(uintptr_t where)
{
	return ranges_used < RANGES && !range_of(where);
}

/* The function ob_may_stop, called in a signal handler. */
static bool may_stop(uintptr_t at)
{
	const struct uposix_thread *me;
	pid_t here = gettid();

	if (!uposix__may_stop_at(at))
		return false;
	me = uposix__me();              /* with blocks this call allocates nothing */
	return me && me->p_thread == usched__current->s_current && !me->p_exiting
		&& !holds(loads, here) && !holds(loads + 1, here);
}

/* Lets threads be interrupted, if they have blocks. Complains only if slices were asked
   for. */
static void begin_slices(void)
{
	void *global = dlsym(RTLD_DEFAULT, "_rtld_global");

	dl_iterate_phdr(find_loads, global);
	if (uposix__blocks && loads) {
		SET(usched__observer.ob_may_stop, may_stop);
		return;
	}
	if (outside_setting("UPOSIX_SLICE"))
		uposix__tell("UPOSIX_SLICE: threads cannot be interrupted");
	uposix__conf.c_slice = 0;
}

/* Decides at the first look whether each thread has a block of its own. */
static void decide(void)
{
	enum uposix_tls mode = uposix__conf.c_tls;

	if (mode == UPOSIX_OWN && no_blocks) {
		uposix__tell("UPOSIX_TLS=own: threads cannot have thread-local variables"
			     " of their own: %s", no_blocks);
		refuse();
	}
	uposix__blocks = !no_blocks
			 && (mode == UPOSIX_OWN || wants || uposix__conf.c_slice);
	if (uposix__blocks)
		uproc__use_blocks();
	if (uposix__blocks && wants && !SIMULATED)
		uposix__tell("threads have thread-local variables of their own: %s",
			     wanting);
	if (uposix__conf.c_slice)
		begin_slices();
}

static bool may_have_blocks(void)
{
	return uposix__conf.c_tls == UPOSIX_BY_NEED || uposix__conf.c_tls == UPOSIX_OWN;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *number)
{
	bool late = (*(size_t *)number)++ >= at_start;
	const char *name = name_of(info), *why;

	(void)size;
	if (is_known(info->dlpi_phdr))
		return 0;
	why = why_refused(info, name);
	if (why) {
		tell_refused(name, why);
		refuse();
		return 0;
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && h->p_flags & PF_X)
			note_code(info, h, name);
		if (h->p_type == PT_TLS && h->p_memsz) {
			uposix__note_place(info, h);
			look_at_variables(info, h, name, late);
		}
	}
	return 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *adds)
{
	(void)size;
	*(unsigned long long *)adds = info->dlpi_adds;
	return 1;
}

static void look(void)
{
	unsigned long long adds = 0;
	size_t number = 0;

	dl_iterate_phdr(count, &adds);
	if (adds == seen)
		return;
	if (seen && uposix__blocks)
		uproc__look_at_loads();
	if (!seen)
		no_blocks = may_have_blocks() ? uproc__probe_blocks() : "";
	dl_iterate_phdr(look_at, &number);
	if (!seen) {
		decide();
		uposix__keep_chosen();
	}
	__atomic_store_n(&seen, adds, __ATOMIC_RELAXED);
}

int uposix__look_at_objects(void)
{
	uwait_lock(&looking);
	/* With blocks, only a load is the time to look at what is loaded. */
	if (!inherited && !(seen && uposix__blocks))
		look();
	uwait_unlock(&looking);
	return __atomic_load_n(&refused_some, __ATOMIC_RELAXED);
}

/*
 * Does nothing before the first look, which the first pthread_create() makes. The first
 * look is not made here, since libc holds a lock while an object is loaded.
 */
void uposix__loaded(void)
{
	if (!__atomic_load_n(&seen, __ATOMIC_RELAXED))
		return;
	uwait_lock(&looking);
	look();
	uwait_unlock(&looking);
}

static void hold_objects(int on)
{
	(on ? uwait_lock : uwait_unlock)(&looking);
}

static void objects_forked(void)
{
	inherited = seen != 0;
}

UPOSIX_AT_FORK(UPOSIX_OBJECTS, hold_objects, objects_forked)

/*
 * Counts the object. A program of Java or Go ends here, since each such program starts
 * threads before anything else.
 */
static int count_one(struct dl_phdr_info *info, size_t size, void *n)
{
	const char *name = name_of(info), *why = why_refused(info, name);

	(void)size;
	++*(size_t *)n;
	if (why && !BEGINS(name, sanitizers)) {
		tell_refused(name, why);
		_exit(2);
	}
	return 0;
}

__attribute__((constructor(102))) static void begin(void)
{
	dl_iterate_phdr(count_one, &at_start);
}

bool uposix__in_allocator(const void *where)
{
	const struct range *r = range_of((uintptr_t)where);

	return r && r->r_allocates;
}

void uposix__let_run(const void *where)
{
	if (!uposix__in_allocator(where))
		uposix__once_more(usched__yield_tired(USCHED_NEVER));
}
