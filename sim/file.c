/* SPDX-License-Identifier: MIT */
/*
 * file.c: files in memory, their names, and what a crash leaves of both.
 *
 * The contents of a file are in memory from memfd_create(). open() opens the name of this
 * memory in /proc, so that the kernel does offsets and mappings. The table of sim/fd.c
 * tells which file a descriptor belongs to.
 *
 * Each file has a copy of its contents at the last sync. Blocks that differ from the copy
 * have been written since then, maybe through a mapping. A crash keeps some of them.
 *
 * Each host has a tree of directories and the names in them. When a host first uses the
 * name of a real file, the host gets a copy of that file; but calls on files of the
 * system, such as /dev/null, go to the real file. A name has two files: the present file,
 * and the file that the name has after a crash. If the two differ, the name has been
 * changed since the last sync. Such a change has a number. rename() gives the changes of
 * both names one number, and a crash keeps all changes with the same number, or none. A
 * sync of the file or of its directory makes the changes permanent.
 *
 * A real directory is read each time the program opens it, and its entries become names.
 * When a file is removed, its name stays until the end of the run, so that a real file
 * with this name stays hidden.
 */
#undef _FORTIFY_SOURCE
#include <fnmatch.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "../posix/uposix_set.h"
#include "world.h"

enum {
	BLOCK = 512,                    /* bytes; a disk writes all of a block, or none */
	BITS  = 16,                     /* bits that choose which changes a crash keeps */
};

/* A file or directory. */
struct file {
	int              f_fd;          /* of the memory; -1: not opened yet */
	unsigned         f_refs;        /* number of pointers that refer() has set */
	char            *f_path;        /* real file of which this is a copy, or NULL */
	struct stat      f_stat;        /* what stat() returns; with memory the memory has
					   the size. Reads do not change st_atim */
	char            *f_synced;      /* contents at the last sync */
	size_t           f_size;        /* bytes of f_synced */
	char            *f_again;       /* blocks written since a sync failed are 1 */
	size_t           f_blocks;      /* length of f_again; 0: no sync has failed */
	struct sim_name *f_name;        /* last name; a directory has no other */
	STAILQ_HEAD(, sim_name) f_names;        /* names in a directory */
};

/* A name that a host has used. */
struct sim_name {
	LIST_ENTRY(sim_name)   n_of_all;
	STAILQ_ENTRY(sim_name) n_of_dir;
	struct file     *n_dir;         /* the directory with this name */
	struct sim_host *n_host;
	struct file     *n_file;        /* the file with this name, or NULL */
	struct file     *n_synced;      /* the same after a crash */
	unsigned         n_change;      /* number of the change; 0: no change */
	char             n_last[];      /* last part of the path; of the root "" */
};

static LIST_HEAD(, sim_name) names = LIST_HEAD_INITIALIZER(names);
static unsigned numbers;                /* st_ino of the newest file */
static unsigned changes;                /* number of the newest change */
static struct file top = {              /* directory of the roots of all hosts */
	.f_path = "/", .f_stat = { .st_ino = 1, .st_mode = S_IFDIR },
	.f_names = STAILQ_HEAD_INITIALIZER(top.f_names)
};
static struct file other = { .f_path = "" };    /* any other open file */

/* Define functions of the program that call another function, or do one thing. */
#define CALLS(type, name, params, call) type uposix_##name params { return call; }
#define DOES(name, params, action) void uposix_##name params { action; }

int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size);

#define FAIL(error) (errno = (error), -1)
#define NONE(error) (errno = (error), NULL)

/* ---- Files ---- */

/* Returns whether calls go to the real file. The path of `other' is "". */
static bool is_system(const struct file *f)
{
	return f->f_path
		&& fnmatch("@(|/proc/*|/sys/*|/dev/@(fd/*|null|zero|full|tty|std*))",
			   f->f_path, FNM_EXTMATCH) == 0;
}

/* Returns a new file, without memory. */
static struct file *new_file(mode_t mode)
{
	struct file *f = sim__memory(sizeof *f);
	struct timespec now = sim__timespec(sim__time(CLOCK_REALTIME));

	f->f_fd = -1;
	f->f_stat = (struct stat){
		.st_dev = 1, .st_ino = ++numbers, .st_mode = mode,
		.st_nlink = S_ISDIR(mode), .st_uid = geteuid(),
		.st_gid = getegid(), .st_blksize = 4096,
		.st_atim = now, .st_mtim = now, .st_ctim = now,
	};
	STAILQ_INIT(&f->f_names);
	return f;
}

static size_t size_of(const struct file *f)
{
	return (size_t)(f->f_fd < 0 ? f->f_stat.st_size : lseek(f->f_fd, 0, SEEK_END));
}

/* Sets *at, a reference, to a file or NULL. The file to which *at referred before is
   freed if there are no other references. */
static void refer(struct file **at, struct file *f)
{
	struct file *before = *at;

	if (f)
		f->f_refs++;
	*at = f;
	if (!before || --before->f_refs > 0)
		return;
	close(uevents__disown(before->f_fd));
	free(before->f_synced);
	free(before->f_again);
	free(before->f_path);
	free(before);
}

static bool is_dir(const struct file *f)
{
	return f && S_ISDIR(f->f_stat.st_mode);
}

/*
 * Brings the synced copy of a file up to date. A block that was lost when a sync failed
 * is left out, unless the block was written again. In a crash, choices decide which
 * blocks the copy gets; then the file gets the contents of the copy.
 */
static void write_back(struct file *f, bool crash)
{
	size_t size = size_of(f), lost = 0;
	size_t room = (MAX(size, f->f_size) / BLOCK + 1) * BLOCK;
	char *now = sim__memory(room), *before = sim__memory(room);

	if (pread(f->f_fd, now, size, 0) != (ssize_t)size)
		sim_fail("what is in a file cannot be read");
	memcpy(before, f->f_synced, f->f_size);
	if (crash && (size != f->f_size || memcmp(now, before, size) != 0))
		lost = sim__choose("all, nothing or some of a file is lost", 3);
	if (lost == 1 || (lost == 2 && size != f->f_size
			  && sim__choose("a length is lost", 2)))
		size = f->f_size;
	for (size_t n = 0, at = 0; at < size; at = ++n * BLOCK) {
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
	f->f_blocks = crash ? 0 : f->f_blocks;
	if (crash && (ftruncate(f->f_fd, (off_t)size)
		      || pwrite(f->f_fd, now, size, 0) != (ssize_t)size))
		sim_fail("no memory for what is in a file");
}

/* Gives a file its memory, a memfd above the program's descriptors; of a real file, a
   copy. Returns 0, or -1 with errno: the real file cannot be read, or the memory made. */
static int load(struct file *f)
{
	int from = -1;

	if (f->f_fd >= 0)
		return 0;
	if (f->f_path && (S_ISREG(f->f_stat.st_mode) || is_dir(f))) {
		from = (int)syscall(SYS_openat, AT_FDCWD, f->f_path,
				    O_RDONLY | O_CLOEXEC);
		if (from < 0)
			return -1;
	}
	f->f_fd = uevents__own(memfd_create("usched file", MFD_CLOEXEC));
	while (f->f_fd >= 0 && syscall(SYS_sendfile, f->f_fd, from, NULL, 1 << 30) > 0)
		;
	close(from);
	if (f->f_fd < 0)
		return FAIL(EMFILE);
	f->f_synced = sim__memory(1);
	write_back(f, false);
	return 0;
}

/* Returns a copy of the real file with this name in a directory; or NULL. */
static struct file *real_file(const struct file *dir, const char *last)
{
	char path[PATH_MAX];
	struct file one = { .f_path = path }, *f;
	struct stat s = { 0 };

	if (!dir->f_path)
		return NULL;
	snprintf(path, sizeof path, "%s/%s", dir->f_path[1] ? dir->f_path : "", last);
	if (fstatat(AT_FDCWD, path, &s, 0) && !is_system(&one))
		return NULL;
	f = new_file(s.st_mode);
	f->f_path = strdup(path);
	f->f_stat.st_uid = s.st_uid;
	f->f_stat.st_gid = s.st_gid;
	f->f_stat.st_size = S_ISREG(s.st_mode) ? s.st_size : 0;
	return f;
}

/* ---- Names ---- */

/* Gives a name a file, or, if f is NULL, takes the name's file away. */
static void give(struct sim_name *n, struct file *f)
{
	if (n->n_file)
		n->n_file->f_stat.st_nlink--;
	refer(&n->n_file, f);
	if (f) {
		f->f_stat.st_nlink++;
		f->f_name = n;
	}
}

/* Returns a name in a directory. If the name is new, its file is that of real_file(). */
static struct sim_name *name_in(struct file *dir, const char *last, size_t size)
{
	struct sim_host *host = sim__machine(sim__host());
	struct sim_name *n;

	if (size > 0 && size <= 2 && strncmp(last, "..", size) == 0)
		return size == 1 ? dir->f_name : dir->f_name->n_dir->f_name;
	STAILQ_FOREACH(n, &dir->f_names, n_of_dir)
		if (n->n_host == host && strncmp(n->n_last, last, size) == 0
		    && !n->n_last[size])
			return n;
	n = sim__memory(sizeof *n + size + 1);
	memcpy(n->n_last, last, size);
	n->n_host = host;
	refer(&n->n_dir, dir);
	give(n, real_file(dir, n->n_last));
	refer(&n->n_synced, n->n_file);
	STAILQ_INSERT_TAIL(&dir->f_names, n, n_of_dir);
	LIST_INSERT_HEAD(&names, n, n_of_all);
	return n;
}

/* Makes names of the entries of a directory that is a copy of a real one. */
static void name_entries(struct file *dir)
{
	struct dirent **real = NULL;
	int count = dir->f_path ? scandir(dir->f_path, &real, NULL, alphasort) : 0;

	for (int i = 0; i < count; free(real[i++]))
		name_in(dir, real[i]->d_name, strlen(real[i]->d_name));
	free(real);
}

static struct file *root(void)
{
	return name_in(&top, "", 0)->n_file;
}

/* Returns the name at the end of a path that begins at directory `f'. ".." in `top_dir'
   is `top_dir'. Returns NULL with errno if there is no directory for the name. */
static struct sim_name *walk(struct file *f, const char *path, const struct file *top_dir)
{
	struct sim_name *n = f->f_name;
	size_t size;

	if (!*path || strlen(path) >= PATH_MAX)
		return NONE(*path ? ENAMETOOLONG : ENOENT);
	for (; *path; path += size) {
		path += strspn(path, "/");
		size = strcspn(path, "/");
		if (f && !is_dir(f) && !is_system(f))
			return NONE(ENOTDIR);
		if (!size || (f == top_dir && size == 2 && strncmp(path, "..", 2) == 0))
			continue;
		if (!f || size > NAME_MAX)
			return NONE(f ? ENAMETOOLONG : ENOENT);
		if (f->f_name->n_file != f)     /* a directory that has been removed */
			return NONE(ENOENT);
		n = name_in(f, path, size);
		f = n->n_file;
	}
	return n;
}

/* Returns the directory at which a path begins: "/", or an open directory, or, for
   AT_FDCWD, the current directory. Returns NULL with errno if there is none. */
static struct file *base(int dir, bool at_root)
{
	struct file *f = at_root ? root() : dir == AT_FDCWD ? sim__here()->h_dir
		: sim__file_of(dir);
	char link[64], path[PATH_MAX];
	const struct sim_name *name;
	ssize_t n;

	if (f)
		return f;
	snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd"
		 : "/proc/self/fd/%d", dir);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	errno = EBADF;
	name = n > 0 ? walk(root(), path, root()) : NULL;
	return name ? name->n_file : NULL;
}

/* Returns the name for a path, or NULL with errno; if the name has no file, errno is
   ENOENT. If in_root is true, `dir' is also the root, as in openat2(). */
static struct sim_name *look_up(int dir, const char *path, bool in_root)
{
	struct file *from = base(dir, *path == '/' && !in_root);
	struct sim_name *n = from ? walk(from, path, in_root ? from : root()) : NULL;

	if (n && !n->n_file)
		errno = ENOENT;
	return n;
}

/* Returns the file at a path, or NULL with errno. With AT_EMPTY_PATH and an empty path,
   `dir' is a descriptor of the file. */
static struct file *file_at(int dir, const char *path, int flags)
{
	struct file *f = sim__file_of(dir);
	const struct sim_name *n;

	if (flags & AT_EMPTY_PATH && !*path)
		return f ? f : fcntl(dir, F_GETFD) >= 0 ? &other : NULL;
	n = look_up(dir, path, false);
	return n ? n->n_file : NULL;
}

char *uposix_getcwd(char *to, size_t size)
{
	const struct file *f = base(AT_FDCWD, false);
	char path[PATH_MAX] = "", longer[PATH_MAX];

	if (!f || f->f_name->n_file != f)
		return NONE(ENOENT);
	do {
		if (snprintf(longer, PATH_MAX, "/%s%s", f->f_name->n_last, path)
		    >= PATH_MAX)
			return NONE(ENAMETOOLONG);
		strcpy(path, longer);
		f = f->f_name->n_dir;
	} while (f != &top && f != root());
	if ((to || size) && strlen(path) >= size)
		return NONE(size ? ERANGE : EINVAL);
	return strcpy(to ? to : sim__memory(MAX(size, strlen(path) + 1)), path);
}

/* Makes a directory the current one. */
static int enter_directory(struct file *f)
{
	if (!is_dir(f))
		return f ? FAIL(ENOTDIR) : -1;
	refer(&sim__here()->h_dir, f);
	return 0;
}

CALLS(int, chdir, (const char *path), enter_directory(file_at(AT_FDCWD, path, 0)))
CALLS(int, fchdir, (int fd), enter_directory(base(fd, false)))

/* ---- Changes, syncs and crashes ---- */

/* Makes the change of a name permanent, or undoes the change. A directory that has moved
   is never at both places, or at none. */
static void settle(struct sim_name *n, bool lasts)
{
	unsigned moved = is_dir(n->n_file) || is_dir(n->n_synced) ? n->n_change : 0;

	n->n_change = 0;
	give(n, lasts ? n->n_file : n->n_synced);
	refer(&n->n_synced, n->n_file);
	for (n = moved ? LIST_FIRST(&names) : NULL; n; n = LIST_NEXT(n, n_of_all))
		if (n->n_change == moved)
			settle(n, lasts);
}

/* Gives a name another file, or NULL, in one change with another name, or `n' itself. On
   no host a change is permanent at once, since only hosts crash. Returns 0. */
static int change(struct sim_name *n, struct file *f, const struct sim_name *with)
{
	n->n_change = with->n_change ? with->n_change : n->n_change ? n->n_change
		: ++changes;
	give(n, f);
	if (!n->n_host)
		settle(n, true);
	return 0;
}

/* Syncs a file, and changes of its names or of names in it. When a sync fails, Linux
   marks the pages as clean: later syncs leave out pages that are not written again. */
static int sync_file(struct file *f)
{
	struct sim_name *n;

	if (sim__strikes("sync-fails", sim__faults.f_sync_fails)) {
		free(f->f_again);
		f->f_blocks = size_of(f) / BLOCK + 1;
		f->f_again = sim__memory(f->f_blocks);
		return FAIL(EIO);
	}
	if (sim__strikes("sync-lies", sim__faults.f_sync_lies))
		return 0;
	write_back(f, false);
	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_change && (n->n_file == f || n->n_synced == f
				    || n->n_dir == f))
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
		? FAIL(ENOSPC) : 0;
}

static void touch(struct file *f)
{
	f->f_stat.st_mtim = f->f_stat.st_ctim = sim__timespec(sim__time(CLOCK_REALTIME));
}

/* Called after a write of n bytes up to offset `end', or, if n is -1, one that failed.
   Syncs the file if O_DSYNC asks for that. Returns n, or -1 if the sync fails. */
static ssize_t changed(struct file *f, int fd, ssize_t n, off_t end)
{
	if (n < 0)
		return n;
	touch(f);
	for (size_t i = (size_t)(end - n) / BLOCK; i < f->f_blocks && n > 0; i++)
		if (i * BLOCK < (size_t)end)
			f->f_again[i] = true;
	return fcntl(fd, F_GETFL) & O_DSYNC && sync_file(f) ? -1 : n;
}

/* Writes the buffers at offset `at', or, if that is -1, at the offset of `fd'; by chance
   only a part of the first buffer. Returns what writev() returns. */
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
		: syscall(SYS_pwritev, fd, pieces, (long)n, at, 0L);
	return changed(f, fd, done, at < 0 ? lseek(fd, 0, SEEK_CUR) : at + done);
}

/* Called after the kernel has copied n bytes, as changed(), to *at or, if `at' is NULL,
   to the offset of `fd'. */
static ssize_t copied(struct file *f, int fd, ssize_t n, const off_t *at)
{
	return changed(f, fd, n, at ? *at : lseek(fd, 0, SEEK_CUR));
}

/* Defines in_NAME(), which is called in place of libc's NAME(). If `fd' has a file,
   returns `result', which may use this file as `f'. Otherwise calls libc. */
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
	  (fd, data, size, at), at < 0 ? FAIL(EINVAL)
	  : put(f, fd, &(struct iovec){ (void *)data, size }, 1, at))
FILE_CALL(ssize_t, pwritev, (int fd, const struct iovec *pieces, int n, off_t at),
	  (fd, pieces, n, at), at < 0 ? FAIL(EINVAL) : put(f, fd, pieces, n, at))
FILE_CALL(ssize_t, sendfile, (int fd, int in, off_t *from, size_t n), (fd, in, from, n),
	  find_room() ? -1 : copied(f, fd, real_sendfile(fd, in, from, n), NULL))
FILE_CALL(ssize_t, copy_file_range,
	  (int in, off_t *from, int fd, off_t *to, size_t n, unsigned flags),
	  (in, from, fd, to, n, flags), find_room() ? -1
	  : copied(f, fd, real_copy_file_range(in, from, fd, to, n, flags), to))
FILE_CALL(int, ftruncate, (int fd, off_t size), (fd, size),
	  (int)changed(f, fd, real_ftruncate(fd, size), 0))
FILE_CALL(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size),
	  find_room() ? -1
	  : (int)changed(f, fd, real_fallocate(fd, mode, at, size), 0))
FILE_CALL(int, fsync, (int fd), (fd), sync_file(f))
FILE_CALL(int, fdatasync, (int fd), (fd), sync_file(f))

/* ---- Calls that take names ---- */

/* Creates a file or directory with a name. Returns 0, or -1 with errno. */
static int make(struct sim_name *n, mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	return find_room() ? -1 : change(n, new_file(mode & ~mask), n);
}

int sim__socket_file(const char *path, bool makes)
{
	struct sim_name *n = look_up(AT_FDCWD, path, false);

	if (n && n->n_file && makes)
		return -EADDRINUSE;
	if (!n || (makes ? make(n, S_IFSOCK | 0777) : !n->n_file))
		return -errno;
	return (int)n->n_file->f_stat.st_ino;
}

/* Returns whether a file is a random device. If so, fills the file with new bytes. */
static bool is_random(const struct file *f)
{
	static char bytes[1 << 16];

	if (strcmp(f->f_path, "/dev/urandom") && strcmp(f->f_path, "/dev/random"))
		return false;
	sim__fill(bytes, sizeof bytes);
	return pwrite(f->f_fd, bytes, sizeof bytes, 0) == sizeof bytes;
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
	if (flags & O_TRUNC)
		touch(f);
	o = sim__new(&type);
	refer(&o->f_file, f);
	return sim__enter_number(fd, o);
}

static int open_at(int dir, const char *path, bool in_root, int flags, mode_t mode)
{
	struct sim_name *n = look_up(dir, path, in_root);
	struct file *f;

	if (!n)
		return -1;
	if (n->n_file && is_system(n->n_file))
		return (int)syscall(SYS_openat, dir, n->n_file->f_path, flags, mode);
	if (sim__strikes("open", sim__faults.f_open))
		return FAIL(EMFILE);
	if (n->n_file && flags & O_CREAT && flags & O_EXCL)
		return FAIL(EEXIST);
	if (!n->n_file && (!(flags & O_CREAT) || make(n, S_IFREG | (mode & 07777))))
		return -1;
	f = n->n_file;
	if (load(f))
		return -1;
	if (is_dir(f) ? flags & (O_ACCMODE | O_TRUNC | O_CREAT) : flags & O_DIRECTORY)
		return FAIL(is_dir(f) ? EISDIR : ENOTDIR);
	if (is_dir(f) || S_ISREG(f->f_stat.st_mode) || is_random(f))
		return open_memory(f, flags);
	sim__escape("open() of a real FIFO, socket or device");
	return FAIL(ENXIO);
}

/* Has four parameters instead of "...". x86-64 and AArch64, for which posix/ is, pass
   both alike. */
REPLACE(int, openat, (int dir, const char *path, int flags, mode_t mode))
{
	return sim__enters ? open_at(dir, path, false, flags, mode)
		: real_openat(dir, path, flags, mode);
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

int uposix_truncate(const char *path, off_t size)
{
	int fd = uposix_open(path, O_WRONLY), rc;

	if (fd < 0)
		return -1;
	rc = in_ftruncate(fd, size);
	uposix_close(fd);
	return rc;
}

/* Puts the path of an object of shared memory into a buffer, as libc does. */
static char *shared(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "/dev/shm/%s", name + (*name == '/'));
	return path;
}

CALLS(int, shm_open, (const char *name, int flags, mode_t mode),
      uposix_open(shared((char[PATH_MAX]){ 0 }, name), flags | O_CLOEXEC, mode))
CALLS(int, shm_unlink, (const char *name),
      uposix_unlink(shared((char[PATH_MAX]){ 0 }, name)))

FILE *uposix_fopen(const char *restrict path, const char *restrict mode)
{
	int flags = *mode == 'r' ? 0 : O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
	int fd;

	if (!*mode || !strchr("rwa", *mode))
		return NONE(EINVAL);
	if (strstr(mode, ",ccs=")) {
		uposix__tell("fopen(): \",ccs=\" cannot be simulated");
		return NONE(EINVAL);
	}
	flags |= strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
	flags |= (strchr(mode, 'x') ? O_EXCL : 0) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
	fd = uposix_open(path, flags, 0666);
	return fd < 0 ? NULL : uposix_fdopen(fd, mode);
}

/* The standard output is that of all programs. */
REPLACE(int, fclose, (FILE *file))
{
	int fd = fileno(file);          /* -1 for a stream of fopencookie() */

	return sim__several && fd >= 0 && fd <= STDERR_FILENO ? fflush(file)
		: real_fclose(file);
}

/* libc's function sets what `mode' says, except 'x', and keeps the number. */
REPLACE(FILE *, freopen, (const char *path, const char *mode, FILE *file))
{
	const char usual[] = { *mode, strchr(mode, '+') ? '+' : '\0', '\0' };
	FILE *made;
	int error;

	if (!sim__enters || !path)
		return real_freopen(path, mode, file);
	if (!real_freopen("/dev/null", usual, file))
		return NULL;
	made = uposix_fopen(path, mode);
	if (!made) {
		error = errno;
		uposix_fclose(file);
		return NONE(error);
	}
	uposix_dup2(uposix_fileno(made), fileno(file));
	uposix_fclose(made);
	return file;
}

/* Replaces the six X at the end of a path by random digits, and makes a file, or, if the
   flags are O_DIRECTORY, a directory. Returns a descriptor or 0, or -1 with errno. */
static int make_temporary(char *path, int flags)
{
	size_t n = strlen(path);
	uint32_t number;
	int rc;

	if (n < 6 || strcmp(path + n - 6, "XXXXXX") != 0)
		return FAIL(EINVAL);
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

/* Ignores AT_SYMLINK_NOFOLLOW: if the real path is a symbolic link, the name has a copy
   of the link's target. */
int uposix_fstatat(int dir, const char *restrict path, struct stat *restrict s, int flags)
{
	const struct file *f = file_at(dir, path, flags);

	if (!f || is_system(f))
		return f ? fstatat(dir, f->f_path, s, flags) : -1;
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

#define STATX(t) { .tv_sec = (t).tv_sec, .tv_nsec = (uint32_t)(t).tv_nsec }

/* Returns what stat() returns, but as a struct statx. */
int uposix_statx(int dir, const char *restrict path, int flags, UNUSED unsigned mask,
		 struct statx *restrict x)
{
	const char *volatile name = path;       /* Rust's library calls statx() with NULL
						   to see whether there is such a call;
						   libc's header lets gcc assume that
						   `path' is not NULL */
	struct stat s;

	if (!name)
		return FAIL(EFAULT);
	if (uposix_fstatat(dir, path, &s, flags))
		return -1;
	*x = (struct statx){
		.stx_mask = STATX_BASIC_STATS, .stx_blksize = (uint32_t)s.st_blksize,
		.stx_nlink = (uint32_t)s.st_nlink, .stx_uid = s.st_uid,
		.stx_gid = s.st_gid, .stx_mode = (uint16_t)s.st_mode, .stx_ino = s.st_ino,
		.stx_size = (uint64_t)s.st_size, .stx_blocks = (uint64_t)s.st_blocks,
		.stx_atime = STATX(s.st_atim), .stx_ctime = STATX(s.st_ctim),
		.stx_mtime = STATX(s.st_mtim), .stx_dev_major = major(s.st_dev),
		.stx_dev_minor = minor(s.st_dev),
	};
	return 0;
}

/* Grants all access, except reads of real files that cannot be read. */
int uposix_faccessat(int dir, const char *path, int mode, int flags)
{
	struct file *f = file_at(dir, path, flags);

	if (!f || is_system(f))
		return f ? faccessat(dir, f->f_path, mode, flags) : -1;
	return mode & R_OK ? load(f) : 0;
}

CALLS(int, access, (const char *path, int mode),
      uposix_faccessat(AT_FDCWD, path, mode, 0))

int uposix_mkdirat(int dir, const char *path, mode_t mode)
{
	struct sim_name *n = look_up(dir, path, false);

	return !n ? -1 : n->n_file ? FAIL(EEXIST) : make(n, S_IFDIR | (mode & 07777));
}

CALLS(int, mkdir, (const char *path, mode_t mode), uposix_mkdirat(AT_FDCWD, path, mode))

/* Returns whether a file is no directory, or a directory without entries. */
static bool is_empty(struct file *f)
{
	const struct sim_name *n;

	name_entries(f);
	STAILQ_FOREACH(n, &f->f_names, n_of_dir)
		if (n->n_file)
			return false;
	return true;
}

int uposix_renameat2(int dir, const char *old, int new_dir, const char *new,
		     unsigned flags)
{
	struct sim_name *from = look_up(dir, old, false), *to;
	struct file *f = from ? from->n_file : NULL;

	if (!f || !(to = look_up(new_dir, new, false)))
		return -1;
	if (flags && (to->n_file || flags != RENAME_NOREPLACE))
		return FAIL(flags == RENAME_NOREPLACE ? EEXIST : EINVAL);
	if (to->n_file == f)
		return 0;
	if (to->n_file && is_dir(to->n_file) != is_dir(f))
		return FAIL(is_dir(f) ? ENOTDIR : EISDIR);
	if (to->n_file && !is_empty(to->n_file))
		return FAIL(ENOTEMPTY);
	for (const struct file *d = to->n_dir; d != &top; d = d->f_name->n_dir)
		if (d == f)
			return FAIL(EINVAL);
	change(to, f, from);
	return change(from, NULL, to);
}

int uposix_linkat(int dir, const char *old, int new_dir, const char *new, int flags)
{
	struct file *f = file_at(dir, old, flags);
	struct sim_name *n = f ? look_up(new_dir, new, false) : NULL;

	if (!n || n->n_file)
		return n ? FAIL(EEXIST) : -1;
	if (is_system(f) || is_dir(f))
		return FAIL(is_dir(f) ? EPERM : EXDEV);
	return find_room() ? -1 : change(n, f, n);
}

CALLS(int, link, (const char *old, const char *new),
      uposix_linkat(AT_FDCWD, old, AT_FDCWD, new, 0))
CALLS(int, renameat, (int dir, const char *old, int new_dir, const char *new),
      uposix_renameat2(dir, old, new_dir, new, 0))
CALLS(int, rename, (const char *old, const char *new),
      uposix_renameat2(AT_FDCWD, old, AT_FDCWD, new, 0))

/* ---- Mode, owner and times ---- */

#define KEEP UINT_MAX                   /* stands for a mode or owner that stays */

static const struct timespec keep_times[] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };

/* Sets the mode, owner and times of a file. Returns 0, or -1 with errno. */
static int set(int dir, const char *path, int flags, mode_t mode, uid_t user, gid_t group,
	       const struct timespec times[2])
{
	struct file *f = file_at(dir, path, flags);
	struct stat s = f ? f->f_stat : other.f_stat;

	s.st_ctim = sim__timespec(sim__time(CLOCK_REALTIME));
	s.st_mode = mode == KEEP ? s.st_mode : (s.st_mode & S_IFMT) | (mode & 07777);
	s.st_uid = user == KEEP ? s.st_uid : user;
	s.st_gid = group == KEEP ? s.st_gid : group;
	for (int i = 0; i < 2; i++) {
		struct timespec *t = i == 0 ? &s.st_atim : &s.st_mtim;

		if (!times || times[i].tv_nsec == UTIME_NOW)
			*t = s.st_ctim;
		else if (times[i].tv_nsec != UTIME_OMIT)
			*t = times[i];
		if (t->tv_nsec < 0 || t->tv_nsec >= SECOND)
			return FAIL(EINVAL);
	}
	if (!f)
		return -1;
	f->f_stat = s;
	return 0;
}

/* Defines a call on a file in a directory, and the same for a path and a descriptor. */
#define SETS(at, by_path, by_fd, params, ...)					\
	CALLS(int, at, (int dir, const char *path, UNPACK params, int flags),	\
	      set(dir, path, flags, __VA_ARGS__))				\
	CALLS(int, by_path, (const char *path, UNPACK params),			\
	      set(AT_FDCWD, path, 0, __VA_ARGS__))				\
	CALLS(int, by_fd, (int fd, UNPACK params),				\
	      set(fd, "", AT_EMPTY_PATH, __VA_ARGS__))

SETS(fchmodat, chmod, fchmod, (mode_t mode), mode, KEEP, KEEP, keep_times)
SETS(fchownat, chown, fchown, (uid_t user, gid_t group), KEEP, user, group, keep_times)
CALLS(int, lchown, (const char *path, uid_t user, gid_t group),
      uposix_chown(path, user, group))
CALLS(int, utimensat, (int dir, const char *path, const struct timespec to[2], int flags),
      set(dir, path, flags, KEEP, KEEP, KEEP, to))
CALLS(int, futimens, (int fd, const struct timespec to[2]),
      set(fd, "", AT_EMPTY_PATH, KEEP, KEEP, KEEP, to))

#define TIME(t) { (t).tv_sec, (t).tv_usec * 1000 }

CALLS(int, utimes, (const char *path, const struct timeval to[2]),
      set(AT_FDCWD, path, 0, KEEP, KEEP, KEEP,
	  to ? (struct timespec[]){ TIME(to[0]), TIME(to[1]) } : NULL))
CALLS(int, utime, (const char *path, const struct utimbuf *to),
      set(AT_FDCWD, path, 0, KEEP, KEEP, KEEP,
	  to ? (struct timespec[]){ { to->actime, 0 }, { to->modtime, 0 } } : NULL))

/* ---- Directories ---- */

/* What opendir() returns: <dirent.h> does not define DIR. */
struct __dirstream {
	int            d_fd;            /* the first member, as for libc's dirfd() */
	struct file   *d_file;
	long           d_at;            /* index of the entry that is read next: 0 is ".",
					   1 "..", and i + 2 entry i of f_names */
	struct dirent  d_entry;
};

DIR *uposix_fdopendir(int fd)
{
	struct file *f = base(fd, false);
	DIR *dir;

	if (!is_dir(f))
		return f ? NONE(ENOTDIR) : NULL;
	dir = sim__memory(sizeof *dir);
	dir->d_fd = fd;
	dir->d_file = f;
	name_entries(f);
	return dir;
}

DIR *uposix_opendir(const char *path)
{
	int fd = in_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	return fd < 0 ? NULL : uposix_fdopendir(fd);
}

/* Returns the entries in the order in which the host has used their names. */
struct dirent *uposix_readdir(DIR *dir)
{
	const struct file *f = dir->d_at == 0 ? dir->d_file : dir->d_file->f_name->n_dir;
	const char *last = dir->d_at == 0 ? "." : "..";
	const struct sim_name *n;
	struct stat s;
	long i = 2;

	if (dir->d_at >= 2) {
		STAILQ_FOREACH(n, &dir->d_file->f_names, n_of_dir)
			if (i++ >= dir->d_at && n->n_file
			    && (!is_system(n->n_file)
				|| lstat(n->n_file->f_path, &s) == 0))
				break;
		if (!n)
			return NULL;
		f = n->n_file;
		last = n->n_last;
	}
	dir->d_at = dir->d_at < 2 ? dir->d_at + 1 : i;
	dir->d_entry = (struct dirent){
		.d_ino = f->f_stat.st_ino, .d_off = dir->d_at,
		.d_reclen = sizeof dir->d_entry,
		.d_type = (unsigned char)IFTODT(f->f_stat.st_mode),
	};
	strcpy(dir->d_entry.d_name, last);
	return &dir->d_entry;
}

/* WORLD() would name a call that libc's header warns of. */
REPLACE(int, readdir_r, (DIR *dir, struct dirent *e, struct dirent **found))
{
	*found = uposix_readdir(dir);
	if (*found)
		*found = memcpy(e, *found, sizeof *e);
	return 0;
}

CALLS(long, telldir, (DIR *dir), dir->d_at)
DOES(seekdir, (DIR *dir, long at), dir->d_at = at)
DOES(rewinddir, (DIR *dir), dir->d_at = 0)

/* This library calls closedir(), too. */
REPLACE(int, closedir, (DIR *dir))
{
	int fd = dir->d_fd;

	if (!sim__enters)
		return real_closedir(dir);
	free(dir);
	return close(fd);
}

int uposix_scandir(const char *path, struct dirent ***found,
		   int (*wanted)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	DIR *dir = uposix_opendir(path);
	struct dirent *e, **all = NULL;
	size_t n = 0;

	if (!dir)
		return -1;
	while ((e = uposix_readdir(dir))) {
		if (wanted && !wanted(e))
			continue;
		if (!(all = realloc(all, (n + 1) * sizeof *all)))
			sim_fail("no memory for a directory");
		all[n++] = memcpy(sim__memory(sizeof *e), e, sizeof *e);
	}
	if (n > 0 && compare)
		qsort(all, n, sizeof *all, (int (*)(const void *, const void *))compare);
	*found = all;
	in_closedir(dir);
	return (int)n;
}

static void close_directory(void *dir)
{
	in_closedir(dir);
}

int uposix_glob(const char *pattern, int flags, int (*failed)(const char *, int),
		glob_t *found)
{
	if (!sim__enters)
		return glob(pattern, flags, failed, found);
	found->gl_opendir = (void *(*)(const char *))uposix_opendir;
	found->gl_readdir = (struct dirent *(*)(void *))uposix_readdir;
	found->gl_closedir = close_directory;
	found->gl_stat = uposix_stat;
	found->gl_lstat = uposix_lstat;
	return glob(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
}

int uposix_unlinkat(int dir, const char *path, int flags)
{
	struct sim_name *n = look_up(dir, path, false);

	if (!n || !n->n_file)
		return -1;
	if (is_dir(n->n_file) != (flags == AT_REMOVEDIR))
		return FAIL(is_dir(n->n_file) ? EISDIR : ENOTDIR);
	return is_empty(n->n_file) ? change(n, NULL, n) : FAIL(ENOTEMPTY);
}

CALLS(int, unlink, (const char *path), uposix_unlinkat(AT_FDCWD, path, 0))
CALLS(int, rmdir, (const char *path), uposix_unlinkat(AT_FDCWD, path, AT_REMOVEDIR))
CALLS(int, remove, (const char *path), uposix_unlink(path) == 0 ? 0
      : errno == EISDIR ? uposix_rmdir(path) : -1)
