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
 * A real directory is read anew each time; names that the host has used take the place of
 * its entries. When a file is removed, its name stays until the end of the run, so that a
 * real file with this name stays hidden.
 */
#undef _FORTIFY_SOURCE
#include <dirent.h>
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
	PATH  = 1024,                   /* size of a buffer for a path */
	MARK  = -100,                   /* d_mark: no descriptor has this number */
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
	uid_t            f_user;
	gid_t            f_group;
	bool             f_real;        /* the file is a copy of a real one */
	struct timespec  f_times[2];    /* st_atim, which reads do not change, and
					   st_mtim */
	struct timespec  f_changed;     /* st_ctim */
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
static struct file none;                /* stands for any real file, if the program
					   changes its mode or the like */

/* Makes the program's calls of `name', such as fopen64() or lstat64(), go to `as'. */
#define SAME(name, as) IN_PLACE_OF(name) __attribute__((alias(#as)))

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
	int64_t ns = sim__time(CLOCK_REALTIME);

	return (struct timespec){ ns / SECOND, ns % SECOND };
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
	f->f_host = sim__machine(sim__host());
	f->f_path = path;
	f->f_number = ++numbers;
	f->f_mode = mode;
	f->f_user = geteuid();
	f->f_group = getegid();
	f->f_times[0] = f->f_times[1] = f->f_changed = stamp();
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
	bool opens = S_ISREG(s->st_mode) || S_ISDIR(s->st_mode);
	int from = !opens ? -1
		: (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	f->f_error = opens && from < 0 ? errno : 0;
	f->f_user = s->st_uid;
	f->f_group = s->st_gid;
	f->f_real = true;
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
			if (strlen(to) + 1 + strlen(part) >= PATH
			    || strlen(part) > NAME_MAX)
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

/* Returns the name with this path, if the caller's host has used it; otherwise NULL. */
static struct name *used_name(const char *path)
{
	struct name *n;

	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_host == sim__machine(sim__host())
		    && strcmp(n->n_path, path) == 0)
			return n;
	return NULL;
}

/*
 * Returns the name with this path on the caller's host. If the name is new, and there is
 * a real file, the name gets a copy of the real file.
 */
static struct name *name_at(const char *path)
{
	size_t size = strlen(path) + 1;
	struct name *n = used_name(path);
	struct stat s;

	if (n)
		return n;
	n = sim__memory(sizeof *n + size);
	memcpy(n->n_path, path, size);
	n->n_host = sim__machine(sim__host());
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

/* Returns whether a path means a real file. */
static bool is_real(int dir, const char *path)
{
	return is_system(path) || (dir != AT_FDCWD && *path != '/' && !file_of(dir));
}

/* Returns the file at a path, or NULL with errno. */
static struct file *file_at(int dir, const char *path)
{
	const struct name *n = look_up(dir, path, false);

	return n ? n->n_file : NULL;
}

/* Returns whether a name is in directory `f'. */
static bool is_in(const struct name *n, const struct file *f)
{
	return n->n_host == f->f_host && n->n_path[1]
		&& strcmp(directory_of(n->n_path), f->f_path) == 0;
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
	const struct file copy = *f;            /* f may be freed below */
	struct name *n;

	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_change && (is_in(n, &copy) || (n->n_host == copy.f_host
				    && (n->n_file == f || n->n_synced == f))))
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
	f->f_times[1] = f->f_changed = stamp();
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
	int rc = fstat(fd, s);

	if (rc || !f)
		return rc;
	s->st_dev = 1;
	s->st_ino = f->f_number;
	s->st_mode = f->f_mode;
	s->st_nlink = S_ISDIR(f->f_mode) ? 2 : 1;
	s->st_uid = f->f_user;
	s->st_gid = f->f_group;
	s->st_atim = f->f_times[0];
	s->st_mtim = f->f_times[1];
	s->st_ctim = f->f_changed;
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
	if (!sim__enters || is_real(dir, path))
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
SAME(mkostemp64, uposix_mkostemp);
SAME(mkstemp64, uposix_mkstemp);

/*
 * Ignores AT_SYMLINK_NOFOLLOW: if the real path is a symbolic link, the name has a copy
 * of the link's target.
 */
int uposix_fstatat(int dir, const char *restrict path, struct stat *restrict s, int flags)
{
	const struct file *f;

	if (flags & AT_EMPTY_PATH && !*path)
		return uposix_fstat(dir, s);
	if (is_real(dir, path))
		return fstatat(dir, path, s, flags);
	f = file_at(dir, path);
	return f ? uposix_fstat(f->f_fd, s) : -1;
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
int uposix_faccessat(int dir, const char *path, int mode, int flags)
{
	const struct file *f;

	if (is_real(dir, path))
		return faccessat(dir, path, mode, flags);
	f = file_at(dir, path);
	return !f ? -1 : mode & R_OK && f->f_error ? fail(f->f_error) : 0;
}

CALLS(int, access, (const char *path, int mode),
      uposix_faccessat(AT_FDCWD, path, mode, 0))

int uposix_mkdirat(int dir, const char *path, mode_t mode)
{
	struct name *n = look_up(dir, path, false);

	return !n ? -1 : n->n_file ? fail(EEXIST) : make(n, S_IFDIR, mode);
}

CALLS(int, mkdir, (const char *path, mode_t mode), uposix_mkdirat(AT_FDCWD, path, mode))

int uposix_renameat2(int dir, const char *old, int new_dir, const char *new,
		     unsigned flags)
{
	struct name *from = look_up(dir, old, false), *to;
	const struct file *over;

	if (!from || !from->n_file || !(to = look_up(new_dir, new, false))
	    || !has_parent(to))
		return -1;
	over = to->n_file;
	if (flags && (over || flags != RENAME_NOREPLACE))
		return fail(over && flags == RENAME_NOREPLACE ? EEXIST : EINVAL);
	if (over == from->n_file)
		return 0;
	if (over && S_ISDIR(over->f_mode) != S_ISDIR(from->n_file->f_mode))
		return fail(S_ISDIR(over->f_mode) ? EISDIR : ENOTDIR);
	if (S_ISDIR(from->n_file->f_mode))
		sim__escape("rename() of a directory");
	return change_names(from, to, from->n_file);
}

CALLS(int, renameat, (int dir, const char *old, int new_dir, const char *new),
      uposix_renameat2(dir, old, new_dir, new, 0))
CALLS(int, rename, (const char *old, const char *new),
      uposix_renameat2(AT_FDCWD, old, AT_FDCWD, new, 0))

/* Makes a directory the current one. */
static int enter_directory(const struct file *f)
{
	if (!f || !S_ISDIR(f->f_mode))
		return f ? fail(ENOTDIR) : -1;
	*current() = f->f_path;
	return 0;
}

REPLACE(int, chdir, (const char *path))
{
	return sim__enters ? enter_directory(file_at(AT_FDCWD, path)) : real_chdir(path);
}

REPLACE(int, fchdir, (int fd))
{
	const struct file *f = file_of(fd);

	return f ? enter_directory(f) : real_fchdir(fd);
}

/* ---- Mode, owner and times ---- */

/*
 * Returns the file at a path, which the caller changes now; or `none', or NULL with
 * errno. With AT_EMPTY_PATH and an empty path, `dir' is a descriptor of the file.
 */
static struct file *file_for(int dir, const char *path, int flags)
{
	bool open = flags & AT_EMPTY_PATH && !*path;
	struct file *f = open ? file_of(dir) : is_real(dir, path) ? &none
		: file_at(dir, path);

	if (open && !f && fcntl(dir, F_GETFD) >= 0)
		f = &none;
	if (f)
		f->f_changed = stamp();
	return f;
}

int uposix_fchmodat(int dir, const char *path, mode_t mode, int flags)
{
	struct file *f = file_for(dir, path, flags);

	if (f)
		f->f_mode = (f->f_mode & S_IFMT) | (mode & 07777);
	return f ? 0 : -1;
}

CALLS(int, chmod, (const char *path, mode_t mode),
      uposix_fchmodat(AT_FDCWD, path, mode, 0))
CALLS(int, fchmod, (int fd, mode_t mode), uposix_fchmodat(fd, "", mode, AT_EMPTY_PATH))

int uposix_fchownat(int dir, const char *path, uid_t user, gid_t group, int flags)
{
	struct file *f = file_for(dir, path, flags);

	if (f && user != (uid_t)-1)
		f->f_user = user;
	if (f && group != (gid_t)-1)
		f->f_group = group;
	return f ? 0 : -1;
}

CALLS(int, chown, (const char *path, uid_t user, gid_t group),
      uposix_fchownat(AT_FDCWD, path, user, group, 0))
SAME(lchown, uposix_chown);
CALLS(int, fchown, (int fd, uid_t user, gid_t group),
      uposix_fchownat(fd, "", user, group, AT_EMPTY_PATH))

int uposix_utimensat(int dir, const char *path, const struct timespec to[2], int flags)
{
	struct file *f = file_for(dir, path, flags);

	for (int i = 0; to && i < 2; i++)
		if (to[i].tv_nsec != UTIME_NOW && to[i].tv_nsec != UTIME_OMIT
		    && (to[i].tv_nsec < 0 || to[i].tv_nsec >= SECOND))
			return fail(EINVAL);
	for (int i = 0; f && i < 2; i++)
		if (!to || to[i].tv_nsec == UTIME_NOW)
			f->f_times[i] = f->f_changed;
		else if (to[i].tv_nsec != UTIME_OMIT)
			f->f_times[i] = to[i];
	return f ? 0 : -1;
}

CALLS(int, futimens, (int fd, const struct timespec to[2]),
      uposix_utimensat(fd, "", to, AT_EMPTY_PATH))

int uposix_utimes(const char *path, const struct timeval to[2])
{
	struct timespec times[2];

	for (int i = 0; to && i < 2; i++)
		TIMEVAL_TO_TIMESPEC(&to[i], &times[i]);
	return uposix_utimensat(AT_FDCWD, path, to ? times : NULL, 0);
}

int uposix_utime(const char *path, const struct utimbuf *to)
{
	struct timespec times[] = { { to ? to->actime : 0, 0 },
				    { to ? to->modtime : 0, 0 } };

	return uposix_utimensat(AT_FDCWD, path, to ? times : NULL, 0);
}

/* ---- Directories ---- */

/* What opendir() returns. The first member of a DIR of libc is a descriptor. */
struct dir {
	int            d_mark;          /* MARK */
	int            d_fd;
	size_t         d_at;            /* index of the entry that is read next */
	size_t         d_count;
	struct dirent *d_entries;       /* sorted by name */
};

HOOK_LATER(DIR *, opendir, (const char *path))
HOOK_LATER(struct dirent *, readdir, (DIR *dir))
HOOK_LATER(int, closedir, (DIR *dir))

static void add_entry(struct dir *d, const char *name, ino_t inode, unsigned char type)
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

/* Adds the entries of a real directory, except names that the host has used. */
static void add_real(struct dir *d, const char *path)
{
	DIR *real = real_opendir(path);
	const struct dirent *e;
	char at[PATH + NAME_MAX];

	while (real && (e = real_readdir(real))) {
		snprintf(at, sizeof at, "%s/%s", path[1] ? path : "", e->d_name);
		if (!used_name(at))
			add_entry(d, e->d_name, 1, e->d_type == DT_LNK ? DT_UNKNOWN
				  : e->d_type);
	}
	if (real)
		real_closedir(real);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent *)a)->d_name,
		      ((const struct dirent *)b)->d_name);
}

/* Reads the entries of directory `f'. */
static void fill(struct dir *d, const struct file *f)
{
	const struct name *n;

	d->d_at = d->d_count = 0;
	if (f->f_real) {
		add_real(d, f->f_path);
	} else {
		add_entry(d, ".", f->f_number, DT_DIR);
		add_entry(d, "..", 1, DT_DIR);
	}
	LIST_FOREACH(n, &names, n_of_all)
		if (n->n_file && is_in(n, f))
			add_entry(d, strrchr(n->n_path, '/') + 1, n->n_file->f_number,
				  (unsigned char)IFTODT(n->n_file->f_mode));
	qsort(d->d_entries, d->d_count, sizeof *d->d_entries, by_name);
}

REPLACE(DIR *, fdopendir, (int fd))
{
	const struct file *f = file_of(fd);
	struct dir *d;

	if (!f || !S_ISDIR(f->f_mode))
		return real_fdopendir(fd);
	d = sim__memory(sizeof *d);
	d->d_mark = MARK;
	d->d_fd = fd;
	fill(d, f);
	return (DIR *)(void *)d;
}

static DIR *in_opendir(const char *path)
{
	int fd;

	if (!sim__enters || is_system(path))
		return real_opendir(path);
	fd = in_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? NULL : in_fdopendir(fd);
}

/* Returns the directory that fdopendir() has made here, or NULL if libc has made it. */
static struct dir *dir_of(DIR *dir)
{
	return *(int *)(void *)dir == MARK ? (struct dir *)(void *)dir : NULL;
}

/* Defines in_NAME(), which returns `result' if `dir' has been made here, as `d'. */
#define DIR_CALL(type, name, params, args, result)			\
	REPLACE(type, name, params)					\
	{								\
		struct dir *d = dir_of(dir);				\
									\
		return d ? result : real_##name args;			\
	}

DIR_CALL(int, dirfd, (DIR *dir), (dir), d->d_fd)
DIR_CALL(long, telldir, (DIR *dir), (dir), (long)d->d_at)
DIR_CALL(int, readdir_r, (DIR *dir, struct dirent *e, struct dirent **found),
	 (dir, e, found),
	 (*found = in_readdir(dir)) ? (*found = memcpy(e, *found, sizeof *e), 0) : 0)

static struct dirent *in_readdir(DIR *dir)
{
	struct dir *d = dir_of(dir);

	return !d ? real_readdir(dir)
		: d->d_at < d->d_count ? &d->d_entries[d->d_at++] : NULL;
}

REPLACE(void, seekdir, (DIR *dir, long at))
{
	if (dir_of(dir))
		dir_of(dir)->d_at = (size_t)at;
	else
		real_seekdir(dir, at);
}

REPLACE(void, rewinddir, (DIR *dir))
{
	struct dir *d = dir_of(dir);
	const struct file *f = d ? file_of(d->d_fd) : NULL;

	if (f)
		fill(d, f);
	else if (!d)
		real_rewinddir(dir);
}

static int in_closedir(DIR *dir)
{
	struct dir *d = dir_of(dir);
	int fd = d ? d->d_fd : -1;

	if (!d)
		return real_closedir(dir);
	free(d->d_entries);
	free(d);
	return close(fd);
}

REPLACE(int, scandir, (const char *path, struct dirent ***found,
		       int (*wanted)(const struct dirent *),
		       int (*compare)(const struct dirent **, const struct dirent **)))
{
	DIR *dir = in_opendir(path);
	struct dirent *e, **all = NULL;
	int n = 0;

	while (dir && (e = in_readdir(dir)))
		if (!wanted || wanted(e)) {
			all = realloc(all, (size_t)(n + 1) * sizeof *all);
			all[n] = sim__memory(sizeof *e);
			memcpy(all[n++], e, sizeof *e);
		}
	if (!dir)
		return -1;
	if (compare)
		qsort(all, (size_t)n, sizeof *all,
		      (int (*)(const void *, const void *))compare);
	*found = all;
	in_closedir(dir);
	return n;
}

int uposix_unlinkat(int dir, const char *path, int flags)
{
	struct name *n = look_up(dir, path, false);
	struct dir d = { .d_entries = NULL };
	bool is_dir = n && n->n_file && S_ISDIR(n->n_file->f_mode);

	if (!n || !n->n_file)
		return -1;
	if (is_dir != (flags == AT_REMOVEDIR))
		return fail(is_dir ? EISDIR : ENOTDIR);
	if (is_dir)
		fill(&d, n->n_file);
	free(d.d_entries);
	return d.d_count > 2 ? fail(ENOTEMPTY) : change_names(n, NULL, NULL);
}

CALLS(int, unlink, (const char *path), uposix_unlinkat(AT_FDCWD, path, 0))
CALLS(int, rmdir, (const char *path), uposix_unlinkat(AT_FDCWD, path, AT_REMOVEDIR))
CALLS(int, remove, (const char *path), uposix_unlink(path) == 0 ? 0
      : errno == EISDIR ? uposix_rmdir(path) : -1)
