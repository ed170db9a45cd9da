/* SPDX-License-Identifier: MIT */
/*
 * file.c: files in memory, their names, and what a crash leaves of both.
 *
 * The contents of a file are in memory from memfd_create(). open() opens the name of this
 * memory in /proc, so that the kernel does offsets and mappings. The inode of the memory
 * tells which file a descriptor belongs to. A crash closes the descriptors of the host.
 *
 * Each file has a copy of its contents at the last sync. Blocks that differ from the copy
 * have been written since then, maybe through a mapping. A crash keeps some of these
 * blocks.
 *
 * Names are absolute paths without "." and "..". When a host first uses the name of a
 * real file, the host gets a copy of that file. A name has two files: the present file,
 * and the file that the name has after a crash. If the two differ, the name has been
 * changed since the last sync. Such a change has a number. rename() gives the changes of
 * both names one number, and a crash keeps all changes with the same number, or none. A
 * sync of the file or of its directory makes the changes permanent.
 *
 * When a file is removed, its name stays until the end of the run, so that a real file
 * with this name stays hidden.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
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
	PATH  = 1024,                   /* size of a buffer for a path */
};

/* Contents of a file. */
struct image {
	char  *i_bytes;
	size_t i_size;
};

/* A file or directory. */
struct file {
	LIST_ENTRY(file) f_of_all;
	struct sim_host *f_host;
	const char      *f_path;        /* path of the first name; a directory has no
					   other name */
	unsigned long    f_inode;       /* inode of the memory */
	int              f_fd;          /* descriptor of the memory, which programs do
					   not see */
	unsigned         f_refs;        /* number of n_file and n_synced that refer to
					   this file; at 0 the file is freed */
	unsigned         f_number;      /* number of the inode in fstat() */
	mode_t           f_mode;
	int              f_error;       /* error of open() if the real file cannot be
					   read; otherwise 0 */
	int64_t          f_time;        /* time of the last change, in ns */
	struct image     f_synced;      /* contents at the last sync */
	char            *f_again;       /* f_again[i] is 1 if block i has been written
					   since a sync failed */
	size_t           f_blocks;      /* length of f_again; 0: no sync has failed */
};

/* A name that a host has used. */
struct name {
	LIST_ENTRY(name) n_of_all;
	struct sim_host *n_host;
	struct file     *n_file;        /* the file with this name, or NULL */
	struct file     *n_synced;      /* the file with this name after a crash, or
					   NULL */
	unsigned         n_change;      /* number of the change; 0: both files are the
					   same */
	char             n_path[];
};

static LIST_HEAD(, file) files = LIST_HEAD_INITIALIZER(files);
static LIST_HEAD(, name) names = LIST_HEAD_INITIALIZER(names);
static unsigned numbers;                /* f_number of the newest file */
static unsigned changes;                /* number of the newest change */
static int highest;                     /* highest descriptor of an open file */

/* Makes the program's calls of `name', such as fopen64() or lstat64(), go to `as'. */
#define SAME(name, as) IN_PLACE_OF(name) __attribute__((alias(#as)))

int uposix_openat2(int dir, const char *path, const struct open_how *how, size_t size);

static int fail(int error)
{
	errno = error;
	return -1;
}

/* ---- Files ---- */

/* Returns the file of a descriptor, or NULL. */
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

/* Returns a new file. The contents are in a memfd, whose number is higher than the
   numbers of the program's descriptors. */
static struct file *new_file(const char *path, mode_t mode)
{
	struct file *f = sim__memory(sizeof *f);
	int fd = memfd_create("usched file", MFD_CLOEXEC);
	struct stat s;

	f->f_fd = fcntl(fd, F_DUPFD_CLOEXEC, sim__high());
	syscall(SYS_close, fd);
	if (fstat(f->f_fd, &s))
		sim_fail("no memory, or no number, for a file");
	f->f_inode = s.st_ino;
	f->f_synced.i_bytes = sim__memory(BLOCK);
	f->f_host = sim__host();
	f->f_path = path;
	f->f_number = ++numbers;
	f->f_mode = mode;
	f->f_time = sim__time(CLOCK_REALTIME);
	LIST_INSERT_HEAD(&files, f, f_of_all);
	return f;
}

/*
 * Returns a copy of the contents of a file. The memory of the copy is in whole blocks,
 * and has at least `room' bytes. The bytes after the contents are zeros.
 */
static struct image image_of(const struct file *f, size_t room)
{
	struct image i = { NULL, (size_t)lseek(f->f_fd, 0, SEEK_END) };

	room = room > i.i_size ? room : i.i_size;
	i.i_bytes = sim__memory((room / BLOCK + 1) * BLOCK);
	if (pread(f->f_fd, i.i_bytes, i.i_size, 0) != (ssize_t)i.i_size)
		sim_fail("what is in a file cannot be read");
	return i;
}

/* Replaces the contents of a file. */
static void set_memory(const struct file *f, const char *bytes, size_t size)
{
	if (syscall(SYS_ftruncate, f->f_fd, size)
	    || syscall(SYS_pwrite64, f->f_fd, bytes, size, 0) != (long)size)
		sim_fail("no memory for what is in a file");
}

/* Returns block n of an image; or zeros, if the image is shorter. */
static const char *block(const struct image *i, size_t n)
{
	static const char zeros[BLOCK];

	return n * BLOCK < i->i_size ? i->i_bytes + n * BLOCK : zeros;
}

/*
 * Brings the synced copy of a file up to date. A block that was lost when a sync failed
 * is left out, unless the block was written again. In a crash, choices decide which
 * blocks the copy gets; then the file gets the contents of the copy.
 */
static void write_back(struct file *f, bool crash)
{
	struct image *old = &f->f_synced, now = image_of(f, old->i_size);
	bool same = now.i_size == old->i_size
		&& memcmp(now.i_bytes, old->i_bytes, now.i_size) == 0;
	size_t lost = !crash || same ? 0
		: sim__choose("all, nothing or some of a file is lost", 3);

	if (lost == 1 || (lost == 2 && now.i_size != old->i_size
			  && sim__choose("a length is lost", 2)))
		now.i_size = old->i_size;
	for (size_t n = 0; n * BLOCK < now.i_size && !same; n++) {
		const char *before = block(old, n);
		char *at = now.i_bytes + n * BLOCK;
		bool failed = !crash && n < f->f_blocks && !f->f_again[n];

		if (memcmp(at, before, BLOCK) != 0
		    && (failed || lost == 1
			|| (lost == 2 && sim__choose("a block is lost", 2))))
			memcpy(at, before, BLOCK);
	}
	memset(now.i_bytes + now.i_size, 0, BLOCK - now.i_size % BLOCK);
	free(old->i_bytes);
	*old = now;
	if (crash) {
		set_memory(f, now.i_bytes, now.i_size);
		f->f_blocks = 0;
	}
}

/* Returns a new file with the contents of a real file. */
static struct file *copy_file(const char *path, const struct stat *s)
{
	struct file *f = new_file(path, s->st_mode);
	int from = -1;

	if (S_ISREG(s->st_mode))
		from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (S_ISREG(s->st_mode) && from < 0)
		f->f_error = errno;
	while (from >= 0 && syscall(SYS_sendfile, f->f_fd, from, NULL, 1 << 30) > 0)
		;
	syscall(SYS_close, from);
	write_back(f, false);
	return f;
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
	LIST_REMOVE(before, f_of_all);
	syscall(SYS_close, before->f_fd);
	free(before->f_synced.i_bytes);
	free(before->f_again);
	free(before);
}

/* Returns a new descriptor for the memory of a file; or -1 with errno. */
static int open_memory(const struct file *f, int flags)
{
	const int less = O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECT | O_DIRECTORY;
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/self/fd/%d", f->f_fd);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~less, 0);
	highest = fd > highest ? fd : highest;
	return fd;
}

/* ---- Paths ---- */

/*
 * Returns the variable for the path of the current directory. Each host has such a
 * variable, and all threads on no host share one. The variable is NULL if chdir() was not
 * called.
 */
static const char **current(void)
{
	static const char *of_none;
	struct sim_host *host = sim__host();

	return host ? &host->h_dir : &of_none;
}

REPLACE(char *, getcwd, (char *to, size_t size))
{
	const char *dir = sim__enters ? *current() : NULL;

	if (!dir)
		return real_getcwd(to, size);
	if (!to)
		return strdup(dir);
	if (strlen(dir) < size)
		return strcpy(to, dir);
	errno = ERANGE;
	return NULL;
}

/*
 * Makes a path absolute, without "." and "..", and writes the result to `to'. A relative
 * path begins at the open directory `dir'. If in_root is true, `dir' is also the root, as
 * in openat2(). Returns 0, or -1 with errno.
 */
static int resolve(int dir, const char *path, bool in_root, char *to)
{
	const struct file *f = file_of(dir);
	char parts[PATH], *rest = parts, *part, *end;
	size_t root;

	if (!*path || strlen(path) >= PATH)
		return fail(*path ? ENAMETOOLONG : ENOENT);
	if (*path == '/' && !in_root)
		strcpy(to, "/");
	else if (f && S_ISDIR(f->f_mode))
		strcpy(to, f->f_path);
	else if (dir != AT_FDCWD)
		return fail(ENOTDIR);
	else if (!in_getcwd(to, PATH))
		return -1;
	root = in_root ? strlen(to) : 1;
	strcpy(parts, path);
	while ((part = strsep(&rest, "/"))) {
		if (!*part || strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") != 0) {
			if (strlen(to) + 1 + strlen(part) >= PATH)
				return fail(ENAMETOOLONG);
			strcat(strcat(to, to[1] ? "/" : ""), part);
		} else if (strlen(to) > root) {
			end = strrchr(to, '/');
			end[end == to] = '\0';
		}
	}
	return 0;
}

/* Returns a path without the last name. The next call overwrites the result. */
static const char *directory_of(const char *path)
{
	static char dir[PATH];
	char *end = strrchr(strcpy(dir, path), '/');

	end[end == dir] = '\0';
	return dir;
}

/* Returns whether a path always means the real file. */
static bool is_system(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0
		|| strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/zero") == 0
		|| strcmp(path, "/dev/full") == 0 || strcmp(path, "/dev/tty") == 0
		|| strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0;
}

/* ---- Names ---- */

/*
 * Returns the name with this path on the caller's host. If the name is new, and there is
 * a real file, the name gets a copy of the real file.
 */
static struct name *name_at(const char *path)
{
	struct sim_host *host = sim__host();
	size_t size = strlen(path) + 1;
	struct name *n;
	struct stat s;

	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_host == host && strcmp(n->n_path, path) == 0)
			return n;
	n = sim__memory(sizeof *n + size);
	memcpy(n->n_path, path, size);
	n->n_host = host;
	if (fstatat(AT_FDCWD, path, &s, 0) == 0) {
		refer(&n->n_file, copy_file(n->n_path, &s));
		refer(&n->n_synced, n->n_file);
	}
	LIST_INSERT_HEAD(&names, n, n_of_all);
	return n;
}

/*
 * Returns the name for a path that the program passes to a call, or NULL with errno. If
 * the name has no file, errno is ENOENT.
 */
static struct name *look_up(int dir, const char *path, bool in_root)
{
	char at[PATH];
	struct name *n = resolve(dir, path, in_root, at) ? NULL : name_at(at);

	if (n && !n->n_file)
		errno = ENOENT;
	return n;
}

/* Returns the file at a path, or NULL with errno. */
static struct file *file_at(const char *path)
{
	const struct name *n = look_up(AT_FDCWD, path, false);

	return n ? n->n_file : NULL;
}

/* Returns whether the directory of a name exists; if not, sets errno. */
static bool has_parent(const struct name *n)
{
	const struct file *f = name_at(directory_of(n->n_path))->n_file;

	errno = f ? ENOTDIR : ENOENT;
	return f && S_ISDIR(f->f_mode);
}

/* Makes the change of a name permanent, or undoes the change. */
static void settle(struct name *n, bool lasts)
{
	n->n_change = 0;
	refer(lasts ? &n->n_synced : &n->n_file, lasts ? n->n_file : n->n_synced);
}

/* Makes changes of names permanent: of the names in `f' if `f' is a directory, otherwise
   of the names of `f'. */
static void sync_names(const struct file *f)
{
	const struct sim_host *host = f->f_host;        /* f may be freed below */
	const char *path = f->f_path;
	struct name *n;

	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_change && n->n_host == host
		    && (n->n_file == f || n->n_synced == f
			|| strcmp(directory_of(n->n_path), path) == 0))
			settle(n, true);
}

/*
 * Sets the file of a name, as part of a change. If the name is on no host, the change is
 * permanent at once, since only hosts crash.
 */
static void set_name(struct name *n, struct file *f, unsigned change)
{
	n->n_change = change;
	refer(&n->n_file, f);
	if (!n->n_host)
		settle(n, true);
}

/*
 * Makes one change: name `to' gets file `f', and name `from' loses its file. Each name
 * may be NULL. Returns 0.
 */
static int change_names(struct name *from, struct name *to, struct file *f)
{
	unsigned change = from && from->n_change ? from->n_change
		: to && to->n_change ? to->n_change : ++changes;

	if (to)
		set_name(to, f, change);
	if (from)
		set_name(from, NULL, change);
	return 0;
}

/* ---- Syncs and crashes ---- */

/*
 * When a sync fails, Linux marks the pages as clean. Later syncs leave out these pages
 * until the program writes to them again.
 */
static int sync_file(struct file *f)
{
	if (sim__strikes("sync-fails", sim__faults.f_sync_fails)) {
		free(f->f_again);
		f->f_blocks = (size_t)lseek(f->f_fd, 0, SEEK_END) / BLOCK + 1;
		f->f_again = sim__memory(f->f_blocks);
		return fail(EIO);
	}
	if (sim__strikes("sync-lies", sim__faults.f_sync_lies))
		return 0;
	write_back(f, false);
	sync_names(f);
	return 0;
}

void sim__drop_files(const struct sim_host *host)
{
	size_t lost = sim__choose("changes of names are lost", 1 << BITS);
	struct name *n;
	struct file *f;

	for (int fd = 0; fd <= highest; fd++)
		if ((f = file_of(fd)) && f->f_host == host)
			syscall(SYS_close, fd);
	LIST_FOREACH(f, &files, f_of_all)
		if (f->f_host == host)
			write_back(f, true);
	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_host == host && n->n_change)
			settle(n, !(lost >> n->n_change % BITS & 1));
}

/* ---- Calls that take descriptors ---- */

static int find_room(void)
{
	const struct sim_host *host = sim__host();
	bool full = (host && host->h_full)
		|| sim__strikes("full", sim__faults.f_full);

	return full ? fail(ENOSPC) : 0;
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
	f->f_time = sim__time(CLOCK_REALTIME);
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
		struct file *f = file_of(fd);				\
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

SAME(fstat64, uposix_fstat);

/* ---- Calls that take names ---- */

/* Creates a file or directory with a name. Returns 0, or -1 with errno. */
static int make(struct name *n, mode_t type, mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	if (!has_parent(n) || find_room())
		return -1;
	return change_names(NULL, n, new_file(n->n_path, type | (mode & 07777 & ~mask)));
}

/* Returns whether a file is a random device. If so, fills the file with new bytes. */
static bool is_random(const struct file *f)
{
	static char bytes[1 << 16];

	if (strcmp(f->f_path, "/dev/urandom") != 0
	    && strcmp(f->f_path, "/dev/random") != 0)
		return false;
	sim__fill(bytes, sizeof bytes);
	set_memory(f, bytes, sizeof bytes);
	return true;
}

static int open_at(int dir, const char *path, bool in_root, int flags, mode_t mode)
{
	const int makes = O_CREAT | O_EXCL;
	struct name *n = look_up(dir, path, in_root);
	const struct file *f;

	if (!n)
		return -1;
	if (sim__strikes("open", sim__faults.f_open))
		return fail(EMFILE);
	if (n->n_file && (flags & makes) == makes)
		return fail(EEXIST);
	if (!n->n_file && (!(flags & O_CREAT) || make(n, S_IFREG, mode)))
		return -1;
	f = n->n_file;
	if (f->f_error)
		return fail(f->f_error);
	if (S_ISDIR(f->f_mode) && flags & (O_ACCMODE | O_TRUNC | O_CREAT))
		return fail(EISDIR);
	if (!S_ISDIR(f->f_mode) && flags & O_DIRECTORY)
		return fail(ENOTDIR);
	if (S_ISDIR(f->f_mode) || S_ISREG(f->f_mode) || is_random(f))
		return open_memory(f, flags);
	sim__escape("open() of a real FIFO, socket or device");
	return fail(ENXIO);
}

/* Has four parameters instead of "...": see fcntl() in sim/fd.c. */
REPLACE(int, openat, (int dir, const char *path, int flags, mode_t mode))
{
	if (!sim__enters || is_system(path)
	    || (dir != AT_FDCWD && *path != '/' && !file_of(dir)))
		return real_openat(dir, path, flags, mode);
	return open_at(dir, path, false, flags, mode);
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
	if (!(how->resolve & RESOLVE_IN_ROOT))
		return in_openat(dir, path, (int)how->flags, (mode_t)how->mode);
	return open_at(dir, path, true, (int)how->flags, (mode_t)how->mode);
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

SAME(fopen64, uposix_fopen);

/* Replaces the six X at the end of the path by random digits. */
int uposix_mkostemp(char *path, int flags)
{
	size_t n = strlen(path);
	uint32_t number;
	int fd;

	if (n < 6 || strcmp(path + n - 6, "XXXXXX") != 0)
		return fail(EINVAL);
	do {
		sim__fill(&number, sizeof number);
		snprintf(path + n - 6, 7, "%06u", (unsigned)(number % 1000000));
		fd = uposix_open(path, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
	} while (fd < 0 && errno == EEXIST);
	return fd;
}

int uposix_mkstemp(char *path)
{
	return uposix_mkostemp(path, 0);
}

SAME(mkostemp64, uposix_mkostemp);
SAME(mkstemp64, uposix_mkstemp);

/*
 * Ignores AT_SYMLINK_NOFOLLOW: if the real path is a symbolic link, the name has a copy
 * of the link's target.
 */
int uposix_fstatat(int dir, const char *restrict path, struct stat *restrict s, int flags)
{
	const struct name *n;

	if (flags & AT_EMPTY_PATH && !*path)
		return uposix_fstat(dir, s);
	if (is_system(path) || (dir != AT_FDCWD && *path != '/' && !file_of(dir)))
		return fstatat(dir, path, s, flags);
	n = look_up(dir, path, false);
	return n && n->n_file ? uposix_fstat(n->n_file->f_fd, s) : -1;
}

SAME(fstatat64, uposix_fstatat);

REPLACE(int, stat, (const char *restrict path, struct stat *restrict s))
{
	return sim__enters ? uposix_fstatat(AT_FDCWD, path, s, 0) : real_stat(path, s);
}

SAME(lstat, in_stat);
SAME(lstat64, in_stat);

static struct statx_timestamp timestamp(struct timespec t)
{
	return (struct statx_timestamp){ .tv_sec = t.tv_sec,
					 .tv_nsec = (uint32_t)t.tv_nsec };
}

/* Returns what stat() returns, but as a struct statx. */
int uposix_statx(int dir, const char *restrict path, int flags, unsigned unused,
		 struct statx *restrict x)
{
	struct stat s;

	(void)unused;
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
int uposix_access(const char *path, int mode)
{
	const struct file *f;

	if (is_system(path))
		return access(path, mode);
	f = file_at(path);
	return !f ? -1 : mode & R_OK && f->f_error ? fail(f->f_error) : 0;
}

int uposix_mkdir(const char *path, mode_t mode)
{
	struct name *n = look_up(AT_FDCWD, path, false);

	return !n ? -1 : n->n_file ? fail(EEXIST) : make(n, S_IFDIR, mode);
}

int uposix_unlink(const char *path)
{
	struct name *n = look_up(AT_FDCWD, path, false);

	if (!n || !n->n_file)
		return -1;
	return S_ISDIR(n->n_file->f_mode) ? fail(EISDIR) : change_names(n, NULL, NULL);
}

int uposix_remove(const char *path)
{
	return uposix_unlink(path);
}

int uposix_rename(const char *old, const char *new)
{
	struct name *from = look_up(AT_FDCWD, old, false), *to;
	const struct file *over;

	if (!from || !from->n_file || !(to = look_up(AT_FDCWD, new, false))
	    || !has_parent(to))
		return -1;
	over = to->n_file;
	if (over == from->n_file)
		return 0;
	if (over && S_ISDIR(over->f_mode) != S_ISDIR(from->n_file->f_mode))
		return fail(S_ISDIR(over->f_mode) ? EISDIR : ENOTDIR);
	if (S_ISDIR(from->n_file->f_mode))
		sim__escape("rename() of a directory");
	return change_names(from, to, from->n_file);
}

REPLACE(int, chdir, (const char *path))
{
	const struct file *f;

	if (!sim__enters)
		return real_chdir(path);
	f = file_at(path);
	if (!f || !S_ISDIR(f->f_mode))
		return f ? fail(ENOTDIR) : -1;
	*current() = f->f_path;
	return 0;
}
