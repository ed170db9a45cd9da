/* SPDX-License-Identifier: MIT */
/*
 * file.c: files in memory, their names, and what a crash leaves of both.
 *
 * A file is a descriptor of memory, from memfd_create(). To open it is to open its name
 * in /proc anew, so offsets, mappings and streams are the system's. Descriptors are known
 * by the inode of the memory, and a crash gives the file another one.
 *
 * What was synced is kept beside. What was written since is the difference to that, so
 * writes through a mapping are in it, too. A crash keeps some blocks of the difference.
 *
 * Names are absolute paths without "." and ".."; symbolic links are not followed. A real
 * file becomes one of the caller's host when its name is looked at first. Names are kept
 * twice, now and as a crash leaves them. The change between has a number, and so have
 * later ones of that name and of others that a file moves to: a crash keeps all of that
 * number or none. A sync of the file, or of its directory, has it last.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../posix/uposix_set.h"
#include "host.h"

enum {
	BLOCK   = 512,                  /* bytes: a disk writes all of them or none */
	MOST    = 200,                  /* changes after one that lasts in any case */
	BITS    = 16,                   /* of a number of which each says what is lost */
};

struct image {
	char  *i_bytes;
	size_t i_size;
};

/* A file or directory. */
struct file {
	LIST_ENTRY(file) f_of_all;
	struct sim_host *f_host;
	unsigned long    f_inode;       /* the memory's */
	int              f_fd;
	unsigned         f_refs;        /* of names; it ends with the last */
	unsigned         f_number;      /* what the program sees as inode */
	mode_t           f_mode;
	int              f_error;       /* of open(): a real file that cannot be read */
	int64_t          f_time;        /* ns, of the last change */
	struct image     f_synced;      /* what was synced last */
	char            *f_again;       /* since a failed sync: blocks written */
	size_t           f_blocks;      /* their number */
};

/* A name on a host that was used. */
struct name {
	LIST_ENTRY(name) n_of_all;
	struct sim_host *n_host;
	struct file     *n_file;        /* NULL: there is no such file */
	struct file     *n_synced;      /* after a crash */
	unsigned         n_change;      /* 0: both are the same */
	char             n_path[];
};

#define EACH_NAME(n, next)						\
	for ((n) = LIST_FIRST(&names);					\
	     (n) && ((next) = LIST_NEXT(n, n_of_all), true); (n) = (next))

static LIST_HEAD(, file) files = LIST_HEAD_INITIALIZER(files);
static LIST_HEAD(, name) names = LIST_HEAD_INITIALIZER(names);
static unsigned numbers;
static unsigned changes;

static __typeof__(write) *real_write;
static __typeof__(writev) *real_writev;
static __typeof__(pwrite) *real_pwrite;
static __typeof__(ftruncate) *real_ftruncate;
static __typeof__(fsync) *real_fsync;
static __typeof__(stat) *real_stat;
static __typeof__(chdir) *real_chdir;
static __typeof__(getcwd) *real_getcwd;
static int (*real_open)(const char *path, int flags, ...);
static int (*real_openat)(int dir, const char *path, int flags, ...);

int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size);

static int fail(int error)
{
	errno = error;
	return -1;
}

/* ---- Files ---- */

static struct file *file_of(int fd)
{
	struct file *f;
	struct stat s;

	if (!LIST_EMPTY(&files) && fstat(fd, &s) == 0)
		LIST_FOREACH(f, &files, f_of_all)
			if (f->f_inode == s.st_ino)
				return f;
	return NULL;
}

/* Returns a copy of what is in the file, with zeros up to the end of a block, and with
   room for so many bytes. */
static struct image image_of(const struct file *f, size_t room)
{
	struct image i = { NULL, (size_t)lseek(f->f_fd, 0, SEEK_END) };

	i.i_bytes = calloc((room > i.i_size ? room : i.i_size) / BLOCK + 1, BLOCK);
	if (!i.i_bytes || pread(f->f_fd, i.i_bytes, i.i_size, 0) != (ssize_t)i.i_size)
		sim_fail("no memory for what is in a file");
	return i;
}

static void set_synced(struct file *f, struct image i)
{
	memset(i.i_bytes + i.i_size, 0, BLOCK - i.i_size % BLOCK);
	free(f->f_synced.i_bytes);
	f->f_synced = i;
}

/* Has the file memory, whose number is above those that the program sees. */
static void set_memory(struct file *f, const struct image *i)
{
	int fd = memfd_create("usched file", MFD_CLOEXEC);
	struct stat s;

	f->f_fd = fcntl(fd, F_DUPFD_CLOEXEC, (int)(sysconf(_SC_OPEN_MAX) / 2));
	syscall(SYS_close, fd);
	if (fstat(f->f_fd, &s)
	    || real_pwrite(f->f_fd, i->i_bytes, i->i_size, 0) != (ssize_t)i->i_size)
		sim_fail("no memory, or no number, for a file");
	f->f_inode = s.st_ino;
}

static struct file *new_file(mode_t mode)
{
	struct file *f = calloc(1, sizeof *f);

	if (!f)
		sim_fail("no memory for a file");
	f->f_synced.i_bytes = calloc(1, BLOCK);
	set_memory(f, &f->f_synced);
	f->f_host = sim__host();
	f->f_number = ++numbers;
	f->f_mode = mode;
	f->f_time = sim__time(CLOCK_REALTIME);
	LIST_INSERT_HEAD(&files, f, f_of_all);
	return f;
}

static struct file *copy_file(const char *path, const struct stat *s)
{
	struct file *f = new_file(s->st_mode);
	int from = -1;

	if (S_ISREG(s->st_mode))
		from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (S_ISREG(s->st_mode) && from < 0)
		f->f_error = errno;
	while (from >= 0 && syscall(SYS_sendfile, f->f_fd, from, NULL, 1 << 30) > 0)
		;
	syscall(SYS_close, from);
	set_synced(f, image_of(f, 0));
	return f;
}

static void refer(struct file **at, struct file *f)
{
	struct file *before = *at;

	if (f)
		f->f_refs++;
	*at = f;
	if (!before || --before->f_refs > 0)
		return;
	LIST_REMOVE(before, f_of_all);
	syscall(SYS_close, before->f_fd);
	free(before->f_synced.i_bytes);
	free(before->f_again);
	free(before);
}

static int open_memory(const struct file *f, int flags)
{
	const int less = O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECT | O_DIRECTORY;
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", f->f_fd);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~less, 0);
}

/* ---- Paths ---- */

/* Returns the path of a directory, which has one name. "": it is a file, or NULL. */
static const char *path_of(const struct file *f)
{
	const struct name *n;

	LIST_FOREACH(n, &names, n_of_all)
		if (f && n->n_file == f && S_ISDIR(f->f_mode))
			return n->n_path;
	return "";
}

/* Writes the path, from an open directory, as a name has it. 0, or -1 and errno. */
static int resolve(int dir, const char *path, char *to)
{
	char all[2 * SIM_PATH] = "", *rest = all, *part;

	if (!*path || strlen(path) >= SIM_PATH)
		return fail(*path ? ENAMETOOLONG : ENOENT);
	if (*path != '/' && dir != AT_FDCWD)
		strcpy(all, path_of(file_of(dir)));
	else if (*path != '/' && !getcwd(all, SIM_PATH))
		return -1;
	if (*path != '/' && !*all)
		return fail(ENOTDIR);
	strcat(strcat(all, "/"), path);
	if (strlen(all) >= SIM_PATH)
		return fail(ENAMETOOLONG);
	strcpy(to, "");
	while ((part = strsep(&rest, "/")))
		if (strcmp(part, "..") == 0 && *to)
			*strrchr(to, '/') = '\0';
		else if (*part && strcmp(part, ".") != 0 && strcmp(part, "..") != 0)
			strcat(strcat(to, "/"), part);
	if (!*to)
		strcpy(to, "/");
	return 0;
}

/* Returns whether the file is in this directory. */
static bool is_in(const char *path, const char *dir)
{
	size_t n = (size_t)(strrchr(path, '/') - path);

	return *dir && n == (dir[1] ? strlen(dir) : 0) && memcmp(path, dir, n) == 0;
}

/* Returns whether the path is that of the system's file. */
static bool is_system(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0
		|| strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/zero") == 0
		|| strcmp(path, "/dev/full") == 0 || strcmp(path, "/dev/tty") == 0
		|| strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0;
}

/* ---- Names ---- */

/* Returns the caller's name. It is made, with the real file, if there is none. */
static struct name *name_at(const char *path)
{
	struct sim_host *host = sim__host();
	size_t size = strlen(path) + 1;
	struct name *n;
	struct stat s;

	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_host == host && strcmp(n->n_path, path) == 0)
			return n;
	n = calloc(1, sizeof *n + size);
	if (!n)
		sim_fail("no memory for the name of a file");
	memcpy(n->n_path, path, size);
	n->n_host = host;
	if (fstatat(AT_FDCWD, path, &s, 0) == 0) {
		refer(&n->n_file, copy_file(path, &s));
		refer(&n->n_synced, n->n_file);
	}
	LIST_INSERT_HEAD(&names, n, n_of_all);
	return n;
}

/* Returns NULL, and errno, if there is none. */
static struct file *file_at(const char *path)
{
	errno = ENOENT;
	return name_at(path)->n_file;
}

static bool has_parent(const char *path)
{
	char dir[SIM_PATH];
	const struct file *f;

	strcpy(dir, path);
	*strrchr(dir, '/') = '\0';
	f = file_at(*dir ? dir : "/");
	errno = f ? ENOTDIR : ENOENT;
	return f && S_ISDIR(f->f_mode);
}

/* The name's change lasts, or is lost. One without a file may hide a real one. */
static void settle(struct name *n, bool lasts)
{
	n->n_change = 0;
	refer(lasts ? &n->n_synced : &n->n_file, lasts ? n->n_file : n->n_synced);
	if (!n->n_file && access(n->n_path, F_OK)) {
		LIST_REMOVE(n, n_of_all);
		free(n);
	}
}

/* Has names of the file, or in the directory that it is, last. */
static void sync_names(const struct file *f)
{
	const struct sim_host *host = f->f_host;        /* f may end here */
	const char *dir = path_of(f);
	struct name *n, *next;

	EACH_NAME(n, next)
		if (n->n_change && n->n_host == host
		    && (n->n_file == f || n->n_synced == f || is_in(n->n_path, dir)))
			settle(n, true);
}

/* The file has the name `to', and no longer `from'; each may be NULL. */
static int change_names(struct name *from, struct name *to, struct file *f)
{
	unsigned change = from && from->n_change ? from->n_change
		: to && to->n_change ? to->n_change : changes + 1;
	struct name *n, *next;

	changes++;
	if (to) {
		to->n_change = change;
		refer(&to->n_file, f);
	}
	if (from) {
		from->n_change = change;
		refer(&from->n_file, NULL);
	}
	EACH_NAME(n, next)
		if (n->n_change && (!n->n_host || n->n_change + MOST < changes))
			settle(n, true);
	return 0;
}

/* ---- Syncs and crashes ---- */

static const char *block(const struct image *i, size_t n)
{
	static const char zeros[BLOCK];

	return n * BLOCK < i->i_size ? i->i_bytes + n * BLOCK : zeros;
}

/* Puts what was synced in place of blocks that are lost: by a failed sync, or any. */
static void lose_blocks(const struct file *f, struct image *now, bool any)
{
	for (size_t n = 0; n * BLOCK < now->i_size; n++) {
		const char *old = block(&f->f_synced, n), *new = block(now, n);

		if (memcmp(new, old, BLOCK) != 0
		    && (any ? sim__choose("a block is lost", 2) > 0
			: n < f->f_blocks && !f->f_again[n]))
			memcpy(now->i_bytes + n * BLOCK, old, BLOCK);
	}
}

/* After a sync that failed Linux takes its pages for clean: until they are written again
   no other sync has them. */
static int sync_file(struct file *f)
{
	bool fails = sim__strikes("fsync fails", sim__faults.f_sync_fails);
	struct image now;

	if (!fails && sim__strikes("fsync lies", sim__faults.f_sync_lies))
		return 0;
	now = image_of(f, 0);
	if (fails) {
		free(now.i_bytes);
		free(f->f_again);
		f->f_blocks = now.i_size / BLOCK + 1;
		f->f_again = calloc(f->f_blocks, 1);
		return fail(EIO);
	}
	if (f->f_again)
		lose_blocks(f, &now, false);
	set_synced(f, now);
	sync_names(f);
	return 0;
}

static void crash_file(struct file *f)
{
	const struct image *old = &f->f_synced;
	struct image now = image_of(f, old->i_size);
	bool same = now.i_size == old->i_size
		&& memcmp(now.i_bytes, old->i_bytes, now.i_size) == 0;
	size_t lost = same ? 0 : sim__choose("all, nothing or some of a file is lost", 3);

	if (lost == 1 || (lost == 2 && now.i_size != old->i_size
			  && sim__choose("a length is lost", 2)))
		now.i_size = old->i_size;
	if (lost == 1)
		memcpy(now.i_bytes, old->i_bytes, now.i_size);
	if (lost == 2)
		lose_blocks(f, &now, true);
	set_synced(f, now);
	free(f->f_again);
	f->f_again = NULL;
	syscall(SYS_close, f->f_fd);
	set_memory(f, &now);
}

void sim__drop_files(const struct sim_host *host)
{
	size_t lost = sim__choose("changes of names are lost", 1 << BITS);
	struct name *n, *next;
	struct file *f;

	LIST_FOREACH(f, &files, f_of_all)
		if (f->f_host == host)
			crash_file(f);
	EACH_NAME(n, next)
		if (n->n_host == host && n->n_change)
			settle(n, !(lost >> n->n_change % BITS & 1));
}

/* ---- Calls that take descriptors ---- */

static int find_room(void)
{
	const struct sim_host *host = sim__host();
	bool full = (host && host->h_full)
		|| sim__strikes("the disk is full", sim__faults.f_full);

	return full ? fail(ENOSPC) : 0;
}

/* After a change to the file, of n bytes that end there. Returns n, or -1. */
static ssize_t changed(struct file *f, int fd, ssize_t n, off_t end)
{
	if (n < 0)
		return n;
	f->f_time = sim__time(CLOCK_REALTIME);
	for (off_t i = (end - n) / BLOCK; f->f_again && i * BLOCK < end; i++)
		if ((size_t)i < f->f_blocks)
			f->f_again[i] = true;
	return fcntl(fd, F_GETFL) & O_DSYNC && sync_file(f) ? -1 : n;
}

/* Writes the pieces, or a part of the first one; at < 0: where the descriptor is. */
static ssize_t put(struct file *f, int fd, const struct iovec *pieces, int n, off_t at)
{
	struct iovec part = n > 0 ? *pieces : (struct iovec){ 0 };
	ssize_t done;

	if (find_room())
		return -1;
	if (part.iov_len > 1 && sim__strikes("a write is short", sim__faults.f_short)) {
		part.iov_len -= 1 + sim__choose("how short a write is", part.iov_len - 1);
		pieces = &part;
		n = 1;
	}
	done = at < 0 ? real_writev(fd, pieces, n) : pwritev(fd, pieces, n, at);
	return changed(f, fd, done, at < 0 ? lseek(fd, 0, SEEK_CUR) : at + done);
}

static ssize_t in_write(int fd, const void *data, size_t size)
{
	struct iovec piece = { (void *)data, size };
	struct file *f = file_of(fd);

	return f ? put(f, fd, &piece, 1, -1) : real_write(fd, data, size);
}

static ssize_t in_pwrite(int fd, const void *data, size_t size, off_t at)
{
	struct iovec piece = { (void *)data, size };
	struct file *f = at < 0 ? NULL : file_of(fd);

	return f ? put(f, fd, &piece, 1, at) : real_pwrite(fd, data, size, at);
}

static ssize_t in_writev(int fd, const struct iovec *pieces, int n)
{
	struct file *f = file_of(fd);

	return f ? put(f, fd, pieces, n, -1) : real_writev(fd, pieces, n);
}

static int in_ftruncate(int fd, off_t size)
{
	struct file *f = file_of(fd);
	int rc = real_ftruncate(fd, size);

	return f ? (int)changed(f, fd, rc, 0) : rc;
}

static int in_fsync(int fd)
{
	struct file *f = file_of(fd);

	return f ? sync_file(f) : real_fsync(fd);
}

int uposix_fstat(int fd, struct stat *s)
{
	const struct file *f = file_of(fd);
	const int64_t second = 1000000000;
	int rc = fstat(fd, s);

	if (rc || !f)
		return rc;
	s->st_dev = 1;
	s->st_ino = f->f_number;
	s->st_mode = f->f_mode;
	s->st_nlink = S_ISDIR(f->f_mode) ? 2 : 1;
	s->st_mtim = (struct timespec){ f->f_time / second, f->f_time % second };
	s->st_atim = s->st_ctim = s->st_mtim;
	return 0;
}

SAME(fstat64, fstat);

/* ---- Calls that take names ---- */

/* Returns NULL, and errno. */
static struct file *make(const char *path, mode_t type, mode_t mode)
{
	mode_t mask = umask(0);
	struct file *f;

	umask(mask);
	if (!has_parent(path) || find_room())
		return NULL;
	f = new_file(type | (mode & 07777 & ~mask));
	change_names(NULL, name_at(path), f);
	return f;
}

/* Of a device of random numbers. */
static int open_random(int flags)
{
	static char bytes[1 << 16];
	struct file *f = NULL;
	int fd;

	refer(&f, new_file(S_IFREG | 0444));
	sim__fill(bytes, sizeof bytes);
	(void)!real_pwrite(f->f_fd, bytes, sizeof bytes, 0);
	fd = open_memory(f, flags);
	refer(&f, NULL);
	return fd;
}

static int open_file(const char *path, int flags, mode_t mode)
{
	const int makes = O_CREAT | O_EXCL;
	struct file *f = file_at(path);

	if (!f && errno == ENOENT && flags & O_CREAT)
		f = make(path, S_IFREG, mode);
	else if (f && (flags & makes) == makes)
		return fail(EEXIST);
	if (!f)
		return -1;
	if (f->f_error)
		return fail(f->f_error);
	if (S_ISDIR(f->f_mode) && flags & (O_ACCMODE | O_TRUNC | O_CREAT))
		return fail(EISDIR);
	if (!S_ISDIR(f->f_mode) && flags & O_DIRECTORY)
		return fail(ENOTDIR);
	if (S_ISDIR(f->f_mode) || S_ISREG(f->f_mode))
		return open_memory(f, flags);
	sim__escape("open() of a real FIFO, socket or device");
	return fail(ENXIO);
}

/* The mode is passed as in a call without "...", on the machines that posix/ is for. */
static int in_openat(int dir, const char *path, int flags, mode_t mode)
{
	char at[SIM_PATH];

	if (!sim__enters || is_system(path)
	    || (dir != AT_FDCWD && *path != '/' && !file_of(dir)))
		return real_openat(dir, path, flags, mode);
	if (resolve(dir, path, at))
		return -1;
	if (strcmp(at, "/dev/urandom") == 0 || strcmp(at, "/dev/random") == 0)
		return open_random(flags);
	if (sim__strikes("there is no free descriptor", sim__faults.f_open))
		return fail(EMFILE);
	return open_file(at, flags, mode);
}

static int in_open(const char *path, int flags, mode_t mode)
{
	return in_openat(AT_FDCWD, path, flags, mode);
}

/* For syscall() alone. With RESOLVE_IN_ROOT names do not lead out of the directory. */
int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size)
{
	char root[SIM_PATH], below[SIM_PATH], at[2 * SIM_PATH];

	if (!sim__enters)
		return (int)syscall(SYS_openat2, dir, path, how, size);
	if (how->resolve & ~(uint64_t)(RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS))
		sim__escape("syscall() of this number");
	if (!*path || !(how->resolve & RESOLVE_IN_ROOT))
		return in_openat(dir, path, (int)how->flags, (mode_t)how->mode);
	snprintf(at, sizeof at, "/%s", path);
	if (resolve(dir, ".", root) || resolve(AT_FDCWD, at, below))
		return -1;
	strcat(strcpy(at, root), below);
	return in_openat(AT_FDCWD, at, (int)how->flags, (mode_t)how->mode);
}

FILE *uposix_fopen(const char *restrict path, const char *restrict mode)
{
	int flags = *mode == 'r' ? 0 : O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
	int fd;

	flags |= strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
	flags |= strchr(mode, 'x') ? O_EXCL : 0;
	flags |= strchr(mode, 'e') ? O_CLOEXEC : 0;
	fd = uposix_open(path, flags, 0666);
	return fd < 0 ? NULL : uposix_fdopen(fd, mode);
}

SAME(fopen64, fopen);

/* Writes the path as a name has it. Returns the file, or NULL and errno. */
static struct file *look_up(const char *path, char *at)
{
	return resolve(AT_FDCWD, path, at) ? NULL : file_at(at);
}

static int in_stat(const char *restrict path, struct stat *restrict s)
{
	char at[SIM_PATH];
	const struct file *f;

	if (!sim__enters || is_system(path))
		return real_stat(path, s);
	f = look_up(path, at);
	return f ? uposix_fstat(f->f_fd, s) : -1;
}

int uposix_lstat(const char *restrict path, struct stat *restrict s)
{
	return in_stat(path, s);
}

SAME(lstat64, lstat);

/* Files let all do all, except open() of one with f_error. */
int uposix_access(const char *path, int mode)
{
	struct stat s;

	(void)mode;
	return in_stat(path, &s);
}

int uposix_mkdir(const char *path, mode_t mode)
{
	char at[SIM_PATH];

	if (look_up(path, at))
		return fail(EEXIST);
	return errno == ENOENT && make(at, S_IFDIR, mode) ? 0 : -1;
}

int uposix_unlink(const char *path)
{
	char at[SIM_PATH];
	struct file *f = look_up(path, at);

	if (f && S_ISDIR(f->f_mode))
		return fail(EISDIR);
	return f ? change_names(name_at(at), NULL, f) : -1;
}

int uposix_remove(const char *path)
{
	return uposix_unlink(path);
}

int uposix_rename(const char *old, const char *new)
{
	char from[SIM_PATH], to[SIM_PATH];
	struct file *f = look_up(old, from), *over;

	if (!f || resolve(AT_FDCWD, new, to) || !has_parent(to))
		return -1;
	over = file_at(to);
	if (over == f)
		return 0;
	if (over && S_ISDIR(over->f_mode) != S_ISDIR(f->f_mode))
		return fail(S_ISDIR(over->f_mode) ? EISDIR : ENOTDIR);
	if (S_ISDIR(f->f_mode))
		sim__escape("rename() of a directory");
	return change_names(name_at(from), name_at(to), f);
}

/* ---- The current directory ---- */

/* Returns that of the caller's host, or of all threads that are on none. */
static char *current(void)
{
	static char of_none[SIM_PATH];
	struct sim_host *host = sim__host();

	return host ? host->h_dir : of_none;
}

static int in_chdir(const char *path)
{
	char at[SIM_PATH];
	const struct file *f;

	if (!sim__enters)
		return real_chdir(path);
	f = look_up(path, at);
	if (!f || !S_ISDIR(f->f_mode))
		return f ? fail(ENOTDIR) : -1;
	strcpy(current(), at);
	return 0;
}

static char *in_getcwd(char *to, size_t size)
{
	const char *dir = sim__enters ? current() : "";

	if (!*dir)
		return real_getcwd(to, size);
	if (!to)
		return strdup(dir);
	if (strlen(dir) < size)
		return strcpy(to, dir);
	errno = ERANGE;
	return NULL;
}

HOOKS(HOOK(write), HOOK(writev), HOOK(pwrite), HOOK_AS(pwrite64, pwrite),
      HOOK(ftruncate), HOOK_AS(ftruncate64, ftruncate), HOOK(fsync),
      HOOK_AS(fdatasync, fsync), HOOK(open), HOOK(openat), HOOK(stat),
      HOOK_AS(stat64, stat), HOOK(chdir), HOOK(getcwd))
