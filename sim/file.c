/* SPDX-License-Identifier: MIT */
/*
 * file.c: files in memory, their names, and what a crash leaves of both.
 *
 * The contents of a file are in memory from memfd_create(). open() opens the name of this
 * memory in /proc, so that the kernel does offsets and mappings. The table of sim/fd.c
 * tells which file a descriptor belongs to.
 *
 * Each file has a copy of its contents at the last sync. Blocks that differ from the copy
 * have been written since then, maybe through a mapping. A crash keeps some of these
 * blocks.
 *
 * Each host has a tree of names. When a host first uses the name of a real file, the host
 * gets a copy of that file; but calls on files of the system, such as /dev/null, go to
 * the real file. A name has two files: the present file, and the file that the name has
 * after a crash. If the two differ, the name has been changed since the last sync. Such a
 * change has a number. rename() gives the changes of both names one number, and a crash
 * keeps all changes with the same number, or none. A sync of the file or of its directory
 * makes the changes permanent.
 *
 * A real directory is read anew each time, and its entries become names. When a file is
 * removed, its name stays until the end of the run, so that a real file with this name
 * stays hidden.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "../posix/uposix_set.h"
#include "world.h"

enum {
	BLOCK = 512,                    /* bytes: a disk writes a block as a whole or
					   not at all */
	BITS  = 16,                     /* a random number of this many bits decides which
					   changes of names a crash keeps */
};

/* A file or directory. */
struct file {
	struct sim_name *f_name;        /* the first name; a directory has no other */
	int              f_fd;          /* descriptor of the memory, which programs do
					   not see; -1: not opened yet */
	unsigned         f_refs;        /* number of references: n_file and n_synced of
					   names, f_file of open files */
	bool             f_real;        /* the memory is a copy of a real file */
	bool             f_system;      /* calls go to the real file */
	struct stat      f_stat;        /* what stat() returns; without memory st_size,
					   too. Reads do not change st_atim */
	char            *f_synced;      /* contents at the last sync */
	size_t           f_size;        /* bytes of f_synced */
	char            *f_again;       /* f_again[i] is 1 if block i has been written
					   since a sync failed */
	size_t           f_blocks;      /* length of f_again; 0: no sync has failed */
};

/* A name that a host has used. */
struct sim_name {
	LIST_ENTRY(sim_name) n_of_all;
	LIST_ENTRY(sim_name) n_of_parent;
	LIST_HEAD(, sim_name) n_children;
	struct sim_name *n_parent;
	struct sim_host *n_host;
	struct file     *n_file;        /* the file with this name, or NULL */
	struct file     *n_synced;      /* the file with this name after a crash, or
					   NULL */
	unsigned         n_change;      /* number of the change; 0: both files are the
					   same */
	char            *n_path;
	char            *n_last;        /* the last part of n_path; of the root "" */
};

static LIST_HEAD(, sim_name) names = LIST_HEAD_INITIALIZER(names);
static struct sim_name top = { .n_path = "" };  /* parent of the roots of all hosts */
static unsigned numbers;                /* st_ino of the newest file */
static unsigned changes;                /* number of the newest change */
static struct file other = { .f_name = &top, .f_system = true };        /* any other open
									   file */

/* Defines a function of the program that is a call of another function. */
#define CALLS(type, name, params, call) type uposix_##name params { return call; }

int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size);

static int fail(int error)
{
	errno = error;
	return -1;
}

/* Returns the time of the clock. */
static struct timespec stamp(void)
{
	return sim__timespec(sim__time(CLOCK_REALTIME));
}

/* ---- Files ---- */

/* Returns whether a path always means the real file. */
static bool is_system(const char *path)
{
	static const char *const all[] = {
		"/proc/", "/sys/", "/dev/fd/", "/dev/null", "/dev/zero", "/dev/full",
		"/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr",
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		size_t n = strlen(all[i]);

		if (strncmp(path, all[i], n) == 0 && (all[i][n - 1] == '/' || !path[n]))
			return true;
	}
	return false;
}

/* Returns a new file, without memory. */
static struct file *new_file(struct sim_name *n, mode_t mode)
{
	struct file *f = sim__memory(sizeof *f);
	struct timespec now = stamp();

	f->f_name = n;
	f->f_fd = -1;
	f->f_stat = (struct stat){
		.st_dev = 1, .st_ino = ++numbers, .st_mode = mode,
		.st_nlink = S_ISDIR(mode) ? 2 : 1, .st_uid = geteuid(),
		.st_gid = getegid(), .st_blksize = 4096,
		.st_atim = now, .st_mtim = now, .st_ctim = now,
	};
	return f;
}

static size_t size_of(const struct file *f)
{
	return (size_t)(f->f_fd < 0 ? f->f_stat.st_size : lseek(f->f_fd, 0, SEEK_END));
}

/*
 * Sets *at, a reference, to a file or NULL. The file to which *at referred before is
 * freed if there are no other references.
 */
static void refer(struct file **at, struct file *f)
{
	struct file *before = *at;

	if (f)
		f->f_refs++;
	*at = f;
	if (!before || --before->f_refs > 0)
		return;
	syscall(SYS_close, before->f_fd);
	free(before->f_synced);
	free(before->f_again);
	free(before);
}

static bool is_dir(const struct file *f)
{
	return f && S_ISDIR(f->f_stat.st_mode);
}

/* Replaces the contents of a file. */
static void set_memory(const struct file *f, const char *bytes, size_t size)
{
	if (syscall(SYS_ftruncate, f->f_fd, size)
	    || syscall(SYS_pwrite64, f->f_fd, bytes, size, 0) != (long)size)
		sim_fail("no memory for what is in a file");
}

/*
 * Brings the synced copy of a file up to date. A block that was lost when a sync failed
 * is left out, unless the block was written again. In a crash, choices decide which
 * blocks the copy gets; then the file gets the contents of the copy.
 */
static void write_back(struct file *f, bool crash)
{
	size_t size = size_of(f), lost;
	size_t room = ((size > f->f_size ? size : f->f_size) / BLOCK + 1) * BLOCK;
	char *now = sim__memory(room), *before = sim__memory(room);
	bool same;

	if (pread(f->f_fd, now, size, 0) != (ssize_t)size)
		sim_fail("what is in a file cannot be read");
	memcpy(before, f->f_synced, f->f_size);
	same = size == f->f_size && memcmp(now, before, size) == 0;
	lost = !crash || same ? 0
		: sim__choose("all, nothing or some of a file is lost", 3);
	if (lost == 1 || (lost == 2 && size != f->f_size
			  && sim__choose("a length is lost", 2)))
		size = f->f_size;
	for (size_t n = 0, at = 0; at < size && !same; at = ++n * BLOCK) {
		bool failed = !crash && n < f->f_blocks && !f->f_again[n];

		if (memcmp(now + at, before + at, BLOCK) != 0
		    && (failed || lost == 1
			|| (lost == 2 && sim__choose("a block is lost", 2))))
			memcpy(now + at, before + at, BLOCK);
	}
	free(before);
	free(f->f_synced);
	f->f_synced = now;
	f->f_size = size;
	if (crash) {
		set_memory(f, now, size);
		f->f_blocks = 0;
	}
}

/*
 * Gives a file its memory, a memfd, whose number is higher than the numbers of the
 * program's descriptors. If the file is real, the memory is a copy. Returns 0, or -1 with
 * errno: the real file cannot be read, or there is no descriptor.
 */
static int load(struct file *f)
{
	int fd, from = -1;

	if (f->f_fd >= 0)
		return 0;
	if (f->f_real && (S_ISREG(f->f_stat.st_mode) || is_dir(f))) {
		from = (int)syscall(SYS_openat, AT_FDCWD, f->f_name->n_path,
				    O_RDONLY | O_CLOEXEC);
		if (from < 0)
			return -1;
	}
	fd = memfd_create("usched file", MFD_CLOEXEC);
	f->f_fd = fd < 0 ? -1 : sim__own(fd);
	if (f->f_fd < 0 && from >= 0)
		syscall(SYS_close, from);
	if (f->f_fd < 0)
		return fail(EMFILE);
	syscall(SYS_close, fd);
	while (from >= 0 && syscall(SYS_sendfile, f->f_fd, from, NULL, 1 << 30) > 0)
		;
	syscall(SYS_close, from);
	f->f_synced = sim__memory(1);
	write_back(f, false);
	return 0;
}

/* Returns a new file that stands for the real file of a name; NULL if there is none. */
static struct file *real_file(struct sim_name *n)
{
	bool is_one = is_system(n->n_path);
	struct stat s = { 0 };
	struct file *f;

	if (fstatat(AT_FDCWD, n->n_path, &s, 0) && !is_one)
		return NULL;
	f = new_file(n, s.st_mode);
	f->f_real = true;
	f->f_system = is_one;
	f->f_stat.st_uid = s.st_uid;
	f->f_stat.st_gid = s.st_gid;
	f->f_stat.st_size = S_ISREG(s.st_mode) ? s.st_size : 0;
	return f;
}

/* ---- Names ---- */

/* Returns a name of the caller's host. If the name is new, its file is that of
   real_file(). */
static struct sim_name *name_in(struct sim_name *parent, const char *last, size_t size)
{
	const char *path = strcmp(parent->n_path, "/") ? parent->n_path : "";
	size_t room = strlen(path) + size + 2;
	struct sim_host *host = sim__machine(sim__host());
	struct sim_name *n;

	LIST_FOREACH(n, &parent->n_children, n_of_parent)
		if (n->n_host == host && strncmp(n->n_last, last, size) == 0
		    && !n->n_last[size])
			return n;
	n = sim__memory(sizeof *n + room);
	n->n_path = (char *)(n + 1);
	snprintf(n->n_path, room, "%s/%.*s", path, (int)size, last);
	n->n_last = strrchr(n->n_path, '/') + 1;
	n->n_parent = parent;
	n->n_host = host;
	refer(&n->n_file, real_file(n));
	refer(&n->n_synced, n->n_file);
	LIST_INSERT_HEAD(&parent->n_children, n, n_of_parent);
	LIST_INSERT_HEAD(&names, n, n_of_all);
	return n;
}

/*
 * Returns the name at the end of a path that begins at name `n'. ".." in `root' is
 * `root'. Returns NULL with errno if there is no directory for the name.
 */
static struct sim_name *walk(struct sim_name *n, const char *path,
			     const struct sim_name *root)
{
	size_t size;

	if (!*path || strlen(path) >= PATH_MAX) {
		errno = *path ? ENAMETOOLONG : ENOENT;
		return NULL;
	}
	for (; *path; path += size) {
		const struct file *f = n->n_file;

		path += strspn(path, "/");
		size = strcspn(path, "/");
		if (size == 0 || (size == 1 && *path == '.'))
			continue;
		if (!f || !(f->f_system || is_dir(f)) || size > NAME_MAX) {
			errno = !f ? ENOENT : size > NAME_MAX ? ENAMETOOLONG : ENOTDIR;
			return NULL;
		}
		if (size != 2 || strncmp(path, "..", 2) != 0)
			n = name_in(n, path, size);
		else if (n != root)
			n = n->n_parent;
	}
	return n;
}

/*
 * Returns the name at which a path begins: "/", or the name of an open directory, or, for
 * AT_FDCWD, of the current directory. Returns NULL with errno if there is none.
 */
static struct sim_name *base(int dir, bool at_root)
{
	struct sim_name *root = name_in(&top, "", 0);
	struct file *f = sim__file_of(dir);
	char link[64], path[PATH_MAX];
	ssize_t n;

	if (at_root || f)
		return at_root ? root : f->f_name;
	if (dir == AT_FDCWD && sim__here()->h_dir)
		return sim__here()->h_dir;
	snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd"
		 : "/proc/self/fd/%d", dir);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	errno = EBADF;
	return n > 0 ? walk(root, path, root) : NULL;
}

/*
 * Returns the name for a path that the program passes to a call, or NULL with errno. If
 * the name has no file, errno is ENOENT. If in_root is true, `dir' is also the root, as
 * in openat2().
 */
static struct sim_name *look_up(int dir, const char *path, bool in_root)
{
	struct sim_name *from = base(dir, *path == '/' && !in_root), *n;

	n = from ? walk(from, path, in_root ? from : name_in(&top, "", 0)) : NULL;
	if (n && !n->n_file)
		errno = ENOENT;
	return n;
}

/*
 * Returns the file at a path, or NULL with errno. With AT_EMPTY_PATH and an empty path,
 * `dir' is a descriptor of the file.
 */
static struct file *file_at(int dir, const char *path, int flags)
{
	const struct sim_name *n;
	struct file *f;

	if (!(flags & AT_EMPTY_PATH) || *path) {
		n = look_up(dir, path, false);
		return n ? n->n_file : NULL;
	}
	f = sim__file_of(dir);
	return f ? f : fcntl(dir, F_GETFD) >= 0 ? &other : NULL;
}

char *uposix_getcwd(char *to, size_t size)
{
	const struct sim_name *dir = base(AT_FDCWD, false);

	if (!dir || (to && strlen(dir->n_path) >= size)) {
		errno = dir ? ERANGE : ENOENT;
		return NULL;
	}
	return to ? strcpy(to, dir->n_path) : strdup(dir->n_path);
}

/* Makes a directory the current one. */
static int enter_directory(struct sim_name *n)
{
	if (!n || !is_dir(n->n_file))
		return n && n->n_file ? fail(ENOTDIR) : -1;
	sim__here()->h_dir = n;
	return 0;
}

CALLS(int, chdir, (const char *path), enter_directory(look_up(AT_FDCWD, path, false)))
CALLS(int, fchdir, (int fd), enter_directory(base(fd, false)))

/* ---- Changes, syncs and crashes ---- */

/* Makes the change of a name permanent, or undoes the change. */
static void settle(struct sim_name *n, bool lasts)
{
	n->n_change = 0;
	refer(lasts ? &n->n_synced : &n->n_file, lasts ? n->n_file : n->n_synced);
}

/*
 * Makes one change: name `to' gets file `f', and name `from' loses its file. Each name
 * may be NULL. If a name is on no host, its change is permanent at once, since only hosts
 * crash. Returns 0.
 */
static int change_names(struct sim_name *from, struct sim_name *to, struct file *f)
{
	struct sim_name *const both[] = { to, from };
	unsigned change = from && from->n_change ? from->n_change
		: to && to->n_change ? to->n_change : ++changes;

	for (int i = 0; i < 2; i++) {
		if (!both[i])
			continue;
		both[i]->n_change = change;
		refer(&both[i]->n_file, i == 0 ? f : NULL);
		if (!both[i]->n_host)
			settle(both[i], true);
	}
	return 0;
}

/*
 * Makes the contents of an open file permanent, and changes of its names, or of the names
 * in it. When a sync fails, Linux marks the pages as clean. Later syncs leave out these
 * pages until the program writes to them again.
 */
static int sync_file(struct file *f)
{
	struct sim_name *n;

	if (sim__strikes("sync-fails", sim__faults.f_sync_fails)) {
		free(f->f_again);
		f->f_blocks = size_of(f) / BLOCK + 1;
		f->f_again = sim__memory(f->f_blocks);
		return fail(EIO);
	}
	if (sim__strikes("sync-lies", sim__faults.f_sync_lies))
		return 0;
	write_back(f, false);
	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_change && (n->n_file == f || n->n_synced == f
				    || n->n_parent->n_file == f))
			settle(n, true);
	return 0;
}

void sim__drop_files(const struct sim_host *host)
{
	size_t lost = sim__choose("changes of names are lost", 1 << BITS);
	struct sim_name *n;

	LIST_FOREACH(n, &names, n_of_all) {
		if (n->n_host != host)
			continue;
		if (n->n_synced && n->n_synced->f_fd >= 0)
			write_back(n->n_synced, true);
		if (n->n_file && n->n_file->f_fd >= 0)
			write_back(n->n_file, true);
		if (n->n_change)
			settle(n, !(lost >> n->n_change % BITS & 1));
	}
}

/* ---- Calls that take descriptors ---- */

static int find_room(void)
{
	return sim__here()->h_full || sim__strikes("full", sim__faults.f_full)
		? fail(ENOSPC) : 0;
}

/*
 * Called after a call that writes to `fd'. If the call failed, n is -1; otherwise the
 * call has written n bytes, up to offset `end'. Syncs the file if the program asked for
 * that by O_DSYNC. Returns n, or -1 if the sync fails.
 */
static ssize_t changed(struct file *f, int fd, ssize_t n, off_t end)
{
	if (n < 0)
		return n;
	f->f_stat.st_mtim = f->f_stat.st_ctim = stamp();
	for (size_t i = (size_t)(end - n) / BLOCK; i < f->f_blocks && n > 0; i++)
		if (i * BLOCK < (size_t)end)
			f->f_again[i] = true;
	return fcntl(fd, F_GETFL) & O_DSYNC && sync_file(f) ? -1 : n;
}

/*
 * Writes the buffers at offset `at'. If `at' is -1, writes at the offset of the
 * descriptor. By chance, writes only a part of the first buffer. Returns what writev()
 * returns.
 */
static ssize_t put(struct file *f, int fd, const struct iovec *pieces, int n, off_t at)
{
	struct iovec part = n > 0 ? *pieces : (struct iovec){ 0 };
	ssize_t done;

	if (find_room())
		return -1;
	if (part.iov_len > 1 && sim__strikes("short", sim__faults.f_short)) {
		part.iov_len -= 1 + sim__choose("how short a write is", part.iov_len - 1);
		pieces = &part;
		n = 1;
	}
	done = at < 0 ? syscall(SYS_writev, fd, pieces, (long)n)
		: pwritev(fd, pieces, n, at);
	return changed(f, fd, done, at < 0 ? lseek(fd, 0, SEEK_CUR) : at + done);
}

/*
 * Defines in_NAME(), which is called in place of libc's NAME(). If `fd' has a file,
 * returns `result', which may use this file as `f'. Otherwise calls libc.
 */
#define FILE_CALL(type, name, params, args, result)			\
	REPLACE(type, name, params)					\
	{								\
		struct file *f = sim__file_of(fd);			\
									\
		return f ? result : real_##name args;			\
	}

FILE_CALL(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size),
	  put(f, fd, &(struct iovec){ (void *)data, size }, 1, -1))
FILE_CALL(ssize_t, writev, (int fd, const struct iovec *pieces, int n), (fd, pieces, n),
	  put(f, fd, pieces, n, -1))
FILE_CALL(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at),
	  (fd, data, size, at), at < 0 ? fail(EINVAL)
	  : put(f, fd, &(struct iovec){ (void *)data, size }, 1, at))
FILE_CALL(int, ftruncate, (int fd, off_t size), (fd, size),
	  (int)changed(f, fd, real_ftruncate(fd, size), 0))
FILE_CALL(int, fsync, (int fd), (fd), sync_file(f))
FILE_CALL(int, fdatasync, (int fd), (fd), sync_file(f))

/* ---- Calls that take names ---- */

/* Has four parameters instead of "...": see fcntl() in sim/fd.c. */
HOOK_LATER(int, openat, (int dir, const char *path, int flags, mode_t mode))

/* Creates a file or directory with a name. Returns 0, or -1 with errno. */
static int make(struct sim_name *n, mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	return find_room() ? -1 : change_names(NULL, n, new_file(n, mode & ~mask));
}

/* Returns whether a file is a random device. If so, fills the file with new bytes. */
static bool is_random(const struct file *f)
{
	static char bytes[1 << 16];

	if (strcmp(f->f_name->n_path, "/dev/urandom") != 0
	    && strcmp(f->f_name->n_path, "/dev/random") != 0)
		return false;
	sim__fill(bytes, sizeof bytes);
	set_memory(f, bytes, sizeof bytes);
	return true;
}

static void close_file(struct sim_open *o)
{
	refer(&o->f_file, NULL);
}

/* Returns a new descriptor for the memory of a file; or -1 with errno. */
static int open_memory(struct file *f, int flags)
{
	static const struct sim_type type = { .t_close = close_file };
	const int less = O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECT | O_DIRECTORY;
	struct sim_open *o;
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/self/fd/%d", f->f_fd);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~less, 0);
	if (fd < 0)
		return -1;
	o = sim__new(&type);
	refer(&o->f_file, f);
	return sim__enter_number(fd, o);
}

static int open_at(int dir, const char *path, bool in_root, int flags, mode_t mode)
{
	const int makes = O_CREAT | O_EXCL;
	struct sim_name *n = look_up(dir, path, in_root);
	struct file *f;

	if (!n)
		return -1;
	if (n->n_file && n->n_file->f_system)
		return real_openat(dir, n->n_path, flags, mode);
	if (sim__strikes("open", sim__faults.f_open))
		return fail(EMFILE);
	if (n->n_file && (flags & makes) == makes)
		return fail(EEXIST);
	if (!n->n_file && (!(flags & O_CREAT) || make(n, S_IFREG | (mode & 07777))))
		return -1;
	f = n->n_file;
	if (load(f))
		return -1;
	if (is_dir(f) ? flags & (O_ACCMODE | O_TRUNC | O_CREAT) : flags & O_DIRECTORY)
		return fail(is_dir(f) ? EISDIR : ENOTDIR);
	if (is_dir(f) || S_ISREG(f->f_stat.st_mode) || is_random(f))
		return open_memory(f, flags);
	sim__escape("open() of a real FIFO, socket or device");
	return fail(ENXIO);
}

static int in_openat(int dir, const char *path, int flags, mode_t mode)
{
	return sim__enters ? open_at(dir, path, false, flags, mode)
		: real_openat(dir, path, flags, mode);
}

REPLACE(int, open, (const char *path, int flags, mode_t mode))
{
	return in_openat(AT_FDCWD, path, flags, mode);
}

/* Called by syscall() only. */
int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size)
{
	if (!sim__enters)
		return (int)syscall(SYS_openat2, dir, path, how, size);
	if (how->resolve & ~(uint64_t)(RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS))
		sim__escape("syscall() of this number");
	return open_at(dir, path, how->resolve & RESOLVE_IN_ROOT, (int)how->flags,
		       (mode_t)how->mode);
}

FILE *uposix_fopen(const char *restrict path, const char *restrict mode)
{
	int flags = *mode == 'r' ? 0 : O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
	int fd;

	if (strstr(mode, ",ccs=")) {
		uposix__tell("fopen(): \",ccs=\" cannot be simulated");
		errno = EINVAL;
		return NULL;
	}
	flags |= strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
	flags |= strchr(mode, 'x') ? O_EXCL : 0;
	flags |= strchr(mode, 'e') ? O_CLOEXEC : 0;
	fd = uposix_open(path, flags, 0666);
	return fd < 0 ? NULL : uposix_fdopen(fd, mode);
}

/*
 * Replaces the six X at the end of the path by random digits, and makes a file with these
 * flags; or, if the flags are O_DIRECTORY, a directory. Returns a descriptor or 0.
 */
static int make_temporary(char *path, int flags)
{
	size_t n = strlen(path);
	uint32_t number;
	int rc;

	if (n < 6 || strcmp(path + n - 6, "XXXXXX") != 0)
		return fail(EINVAL);
	do {
		sim__fill(&number, sizeof number);
		snprintf(path + n - 6, 7, "%06u", (unsigned)(number % 1000000));
		rc = flags == O_DIRECTORY ? uposix_mkdir(path, 0700)
			: uposix_open(path, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
	} while (rc < 0 && errno == EEXIST);
	return rc;
}

CALLS(int, mkostemp, (char *path, int flags), make_temporary(path, flags))
CALLS(int, mkstemp, (char *path), make_temporary(path, 0))
CALLS(char *, mkdtemp, (char *path), make_temporary(path, O_DIRECTORY) ? NULL : path)

/*
 * Ignores AT_SYMLINK_NOFOLLOW: if the real path is a symbolic link, the name has a copy
 * of the link's target.
 */
int uposix_fstatat(int dir, const char *restrict path, struct stat *restrict s, int flags)
{
	const struct file *f = file_at(dir, path, flags);

	if (!f || f->f_system)
		return f ? fstatat(dir, f->f_name->n_path, s, flags) : -1;
	*s = f->f_stat;
	s->st_size = (off_t)size_of(f);
	s->st_blocks = (s->st_size + BLOCK - 1) / BLOCK;
	return 0;
}

CALLS(int, stat, (const char *restrict path, struct stat *restrict s),
      uposix_fstatat(AT_FDCWD, path, s, 0))
CALLS(int, lstat, (const char *restrict path, struct stat *restrict s),
      uposix_stat(path, s))
CALLS(int, fstat, (int fd, struct stat *s), uposix_fstatat(fd, "", s, AT_EMPTY_PATH))

static struct statx_timestamp timestamp(struct timespec t)
{
	return (struct statx_timestamp){ .tv_sec = t.tv_sec,
					 .tv_nsec = (uint32_t)t.tv_nsec };
}

/* Returns what stat() returns, but as a struct statx. */
int uposix_statx(int dir, const char *restrict path, int flags, unsigned unused,
		 struct statx *restrict x)
{
	const char *volatile name = path;       /* Rust's library looks by NULL whether
						   there is this call; to gcc a path is
						   never NULL */
	struct stat s;

	(void)unused;
	if (!name)
		return fail(EFAULT);
	if (uposix_fstatat(dir, path, &s, flags))
		return -1;
	*x = (struct statx){
		.stx_mask = STATX_BASIC_STATS, .stx_blksize = (uint32_t)s.st_blksize,
		.stx_nlink = (uint32_t)s.st_nlink, .stx_uid = s.st_uid,
		.stx_gid = s.st_gid,
		.stx_mode = (uint16_t)s.st_mode, .stx_ino = s.st_ino,
		.stx_size = (uint64_t)s.st_size, .stx_blocks = (uint64_t)s.st_blocks,
		.stx_atime = timestamp(s.st_atim), .stx_ctime = timestamp(s.st_ctim),
		.stx_mtime = timestamp(s.st_mtim), .stx_dev_major = major(s.st_dev),
		.stx_dev_minor = minor(s.st_dev),
	};
	return 0;
}

/* Grants all access, except reads of real files that cannot be read. */
int uposix_faccessat(int dir, const char *path, int mode, int flags)
{
	struct file *f = file_at(dir, path, flags);

	if (!f || f->f_system)
		return f ? faccessat(dir, f->f_name->n_path, mode, flags) : -1;
	return mode & R_OK ? load(f) : 0;
}

CALLS(int, access, (const char *path, int mode),
      uposix_faccessat(AT_FDCWD, path, mode, 0))

int uposix_mkdirat(int dir, const char *path, mode_t mode)
{
	struct sim_name *n = look_up(dir, path, false);

	return !n ? -1 : n->n_file ? fail(EEXIST) : make(n, S_IFDIR | (mode & 07777));
}

CALLS(int, mkdir, (const char *path, mode_t mode), uposix_mkdirat(AT_FDCWD, path, mode))

int uposix_renameat2(int dir, const char *old, int new_dir, const char *new,
		     unsigned flags)
{
	struct sim_name *from = look_up(dir, old, false), *to;

	if (!from || !from->n_file || !(to = look_up(new_dir, new, false)))
		return -1;
	if (flags && (to->n_file || flags != RENAME_NOREPLACE))
		return fail(flags == RENAME_NOREPLACE ? EEXIST : EINVAL);
	if (to->n_file == from->n_file)
		return 0;
	if (to->n_file && is_dir(to->n_file) != is_dir(from->n_file))
		return fail(is_dir(to->n_file) ? EISDIR : ENOTDIR);
	if (is_dir(from->n_file))
		sim__escape("rename() of a directory");
	return change_names(from, to, from->n_file);
}

CALLS(int, renameat, (int dir, const char *old, int new_dir, const char *new),
      uposix_renameat2(dir, old, new_dir, new, 0))
CALLS(int, rename, (const char *old, const char *new),
      uposix_renameat2(AT_FDCWD, old, AT_FDCWD, new, 0))

/* ---- Mode, owner and times ---- */

#define KEEP UINT_MAX                   /* stands for a mode or owner that stays */

static const struct timespec keep[] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };

/* Sets the mode, owner and times of a file. Returns 0, or -1 with errno. */
static int set(int dir, const char *path, int flags, mode_t mode, uid_t user, gid_t group,
	       const struct timespec times[2])
{
	struct file *f = file_at(dir, path, flags);
	struct stat *s = f ? &f->f_stat : NULL;

	for (int i = 0; times && i < 2; i++)
		if (times[i].tv_nsec != UTIME_NOW && times[i].tv_nsec != UTIME_OMIT
		    && (times[i].tv_nsec < 0 || times[i].tv_nsec >= SECOND))
			return fail(EINVAL);
	if (!s)
		return -1;
	s->st_ctim = stamp();
	s->st_mode = mode == KEEP ? s->st_mode : (s->st_mode & S_IFMT) | (mode & 07777);
	s->st_uid = user == KEEP ? s->st_uid : user;
	s->st_gid = group == KEEP ? s->st_gid : group;
	for (int i = 0; i < 2; i++) {
		struct timespec *t = i == 0 ? &s->st_atim : &s->st_mtim;

		if (!times || times[i].tv_nsec == UTIME_NOW)
			*t = s->st_ctim;
		else if (times[i].tv_nsec != UTIME_OMIT)
			*t = times[i];
	}
	return 0;
}

CALLS(int, fchmodat, (int dir, const char *path, mode_t mode, int flags),
      set(dir, path, flags, mode, KEEP, KEEP, keep))
CALLS(int, chmod, (const char *path, mode_t mode),
      set(AT_FDCWD, path, 0, mode, KEEP, KEEP, keep))
CALLS(int, fchmod, (int fd, mode_t mode),
      set(fd, "", AT_EMPTY_PATH, mode, KEEP, KEEP, keep))
CALLS(int, fchownat, (int dir, const char *path, uid_t user, gid_t group, int flags),
      set(dir, path, flags, KEEP, user, group, keep))
CALLS(int, chown, (const char *path, uid_t user, gid_t group),
      set(AT_FDCWD, path, 0, KEEP, user, group, keep))
CALLS(int, fchown, (int fd, uid_t user, gid_t group),
      set(fd, "", AT_EMPTY_PATH, KEEP, user, group, keep))
CALLS(int, lchown, (const char *path, uid_t user, gid_t group),
      uposix_chown(path, user, group))
CALLS(int, utimensat, (int dir, const char *path, const struct timespec to[2], int flags),
      set(dir, path, flags, KEEP, KEEP, KEEP, to))
CALLS(int, futimens, (int fd, const struct timespec to[2]),
      set(fd, "", AT_EMPTY_PATH, KEEP, KEEP, KEEP, to))

int uposix_utimes(const char *path, const struct timeval to[2])
{
	struct timespec times[2];

	for (int i = 0; to && i < 2; i++)
		TIMEVAL_TO_TIMESPEC(&to[i], &times[i]);
	return uposix_utimensat(AT_FDCWD, path, to ? times : NULL, 0);
}

CALLS(int, utime, (const char *path, const struct utimbuf *to),
      uposix_utimes(path, !to ? NULL : (struct timeval[]){ { to->actime, 0 },
							   { to->modtime, 0 } }))

/* ---- Directories ---- */

/* What opendir() returns: <dirent.h> does not define DIR. */
struct __dirstream {
	int            d_fd;            /* the first member, as in libc: dirfd() is
					   libc's */
	size_t         d_at;            /* index of the entry that is read next */
	size_t         d_count;
	struct dirent *d_entries;       /* sorted by name */
};

static void add_entry(DIR *d, const char *name, ino_t inode, unsigned char type)
{
	struct dirent *e = realloc(d->d_entries, (d->d_count + 1) * sizeof *e);

	if (!e)
		sim_fail("no memory for a directory");
	d->d_entries = e;
	e += d->d_count++;
	*e = (struct dirent){ .d_ino = inode, .d_off = (off_t)d->d_count,
			      .d_reclen = sizeof *e, .d_type = type };
	strcpy(e->d_name, name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent *)a)->d_name,
		      ((const struct dirent *)b)->d_name);
}

/* Reads the entries of a directory. All names in a real one become names of the host. */
static void fill(DIR *d, const struct file *f)
{
	struct dirent **real = NULL;
	int count = f->f_real ? scandir(f->f_name->n_path, &real, NULL, alphasort) : 0;
	const struct sim_name *n;

	d->d_at = d->d_count = 0;
	add_entry(d, ".", f->f_stat.st_ino, DT_DIR);
	add_entry(d, "..", 1, DT_DIR);
	for (int i = 0; i < count; free(real[i++])) {
		const char *last = real[i]->d_name;

		if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
			continue;
		if (f->f_system)
			add_entry(d, last, 1, real[i]->d_type);
		else
			name_in(f->f_name, last, strlen(last));
	}
	free(real);
	LIST_FOREACH(n, &f->f_name->n_children, n_of_parent)
		if (n->n_file && !f->f_system)
			add_entry(d, n->n_last, n->n_file->f_stat.st_ino,
				  (unsigned char)IFTODT(n->n_file->f_stat.st_mode));
	qsort(d->d_entries, d->d_count, sizeof *d->d_entries, by_name);
}

DIR *uposix_fdopendir(int fd)
{
	const struct sim_name *n = base(fd, false);
	DIR *d;

	if (!n || !is_dir(n->n_file)) {
		errno = n ? ENOTDIR : errno;
		return NULL;
	}
	d = sim__memory(sizeof *d);
	d->d_fd = fd;
	fill(d, n->n_file);
	return d;
}

DIR *uposix_opendir(const char *path)
{
	int fd = in_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	return fd < 0 ? NULL : uposix_fdopendir(fd);
}

struct dirent *uposix_readdir(DIR *dir)
{
	return dir->d_at < dir->d_count ? &dir->d_entries[dir->d_at++] : NULL;
}

/* WORLD() would name a call that libc's header warns of. */
REPLACE(int, readdir_r, (DIR *dir, struct dirent *e, struct dirent **found))
{
	*found = uposix_readdir(dir);
	if (*found)
		*found = memcpy(e, *found, sizeof *e);
	return 0;
}

CALLS(long, telldir, (DIR *dir), (long)dir->d_at)

void uposix_seekdir(DIR *dir, long at)
{
	dir->d_at = (size_t)at;
}

void uposix_rewinddir(DIR *dir)
{
	const struct sim_name *n = base(dir->d_fd, false);

	if (n && n->n_file)
		fill(dir, n->n_file);
}

/* This library calls closedir(), too. */
REPLACE(int, closedir, (DIR *dir))
{
	int fd = dir->d_fd;

	if (!sim__enters)
		return real_closedir(dir);
	free(dir->d_entries);
	free(dir);
	return close(fd);
}

int uposix_scandir(const char *path, struct dirent ***found,
		   int (*wanted)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	DIR *dir = uposix_opendir(path);
	struct dirent *e, **all;
	int n = 0;

	if (!dir)
		return -1;
	all = sim__memory((dir->d_count + 1) * sizeof *all);
	while ((e = uposix_readdir(dir)))
		if (!wanted || wanted(e))
			all[n++] = memcpy(sim__memory(sizeof *e), e, sizeof *e);
	if (compare)
		qsort(all, (size_t)n, sizeof *all,
		      (int (*)(const void *, const void *))compare);
	*found = all;
	in_closedir(dir);
	return n;
}

int uposix_unlinkat(int dir, const char *path, int flags)
{
	struct sim_name *n = look_up(dir, path, false);
	DIR d = { .d_entries = NULL };

	if (!n || !n->n_file)
		return -1;
	if (is_dir(n->n_file) != (flags == AT_REMOVEDIR))
		return fail(is_dir(n->n_file) ? EISDIR : ENOTDIR);
	if (is_dir(n->n_file))
		fill(&d, n->n_file);
	free(d.d_entries);
	return d.d_count > 2 ? fail(ENOTEMPTY) : change_names(n, NULL, NULL);
}

CALLS(int, unlink, (const char *path), uposix_unlinkat(AT_FDCWD, path, 0))
CALLS(int, rmdir, (const char *path), uposix_unlinkat(AT_FDCWD, path, AT_REMOVEDIR))
CALLS(int, remove, (const char *path), uposix_unlink(path) == 0 ? 0
      : errno == EISDIR ? uposix_rmdir(path) : -1)
