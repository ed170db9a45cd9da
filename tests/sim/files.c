/* SPDX-License-Identifier: MIT */
/*
 * Files: all calls of a program on them, without crashes. Nothing of it is on the disk
 * afterwards, and real files can be read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* mkostemp() */
#endif
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

#define DIR_NAME "/tmp/usched-sim-test"
#define IN_DIR(name) DIR_NAME "/" name

static void use_descriptors(void)
{
	struct iovec pieces[] = { { "abc", 3 }, { "defg", 4 } };
	struct stat s, t;
	struct statx x;
	char buffer[64];
	int fd = open(IN_DIR("a"), O_CREAT | O_RDWR | O_EXCL, 0640), more;

	assert(fd >= 0);
	assert(open(IN_DIR("a"), O_CREAT | O_EXCL | O_RDWR, 0600) < 0 && errno == EEXIST);
	assert(write(fd, "hello", 5) == 5 && writev(fd, pieces, 2) == 7);
	assert(pwrite(fd, "J", 1, 0) == 1);
	assert(lseek(fd, 0, SEEK_SET) == 0 && read(fd, buffer, sizeof buffer) == 12);
	assert(memcmp(buffer, "Jelloabcdefg", 12) == 0);
	more = open(IN_DIR("./../usched-sim-test//a"), O_WRONLY | O_APPEND);
	assert(more >= 0 && write(more, "!", 1) == 1);
	assert(fstat(fd, &s) == 0 && s.st_size == 13 && s.st_mode == (S_IFREG | 0640));
	assert(stat(IN_DIR("a"), &t) == 0 && t.st_ino == s.st_ino);
	assert(ftruncate(fd, 4) == 0 && ftruncate(more, 3) == 0);
	assert(fsync(fd) == 0 && fdatasync(more) == 0);
	assert(lstat(IN_DIR("a"), &t) == 0 && t.st_size == 3);
	assert(fstatat(fd, "", &t, AT_EMPTY_PATH) == 0 && t.st_ino == s.st_ino);
	assert(statx(AT_FDCWD, IN_DIR("a"), 0, STATX_SIZE, &x) == 0 && x.stx_size == 3);
	assert(x.stx_ino == s.st_ino && x.stx_mode == s.st_mode);
	assert(syscall(SYS_statx, AT_FDCWD, IN_DIR("a"), 0, 0, &x) == 0);
	assert(statx(AT_FDCWD, IN_DIR("b"), 0, STATX_SIZE, &x) < 0 && errno == ENOENT);
	assert(dup2(fd, more) == more && fstat(more, &t) == 0 && t.st_ino == s.st_ino);
	close(more);
	close(fd);
	assert(access(IN_DIR("a"), R_OK) == 0 && access(IN_DIR("b"), F_OK) < 0);
	assert(open(IN_DIR("b"), O_RDONLY) < 0 && errno == ENOENT);
	assert(open(IN_DIR("no/b"), O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT);
	assert(open(IN_DIR("a/"), O_RDONLY) < 0 && errno == ENOTDIR);
	assert(open(IN_DIR("a/b"), O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOTDIR);
}

static void use_mappings(void)
{
	int fd = open(IN_DIR("map"), O_CREAT | O_RDWR, 0600);
	int memory = shm_open("/no-such", O_CREAT | O_EXCL | O_RDWR, 0600);
	char *m, c;

	assert(write(memory, "x", 1) == 1 && shm_open("/no-such", O_RDONLY, 0) >= 0);
	assert(shm_unlink("/no-such") == 0 && shm_unlink("/no-such") < 0);
	close(memory);

	assert(ftruncate(fd, 4096) == 0);
	assert(fallocate(fd, 0, 0, 8192) == 0 && lseek(fd, 0, SEEK_END) == 8192);
	assert(truncate(IN_DIR("map"), 4096) == 0 && lseek(fd, 0, SEEK_END) == 4096);
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert(m != MAP_FAILED);
	m[100] = 'x';
	assert(pread(fd, &c, 1, 100) == 1 && c == 'x');
	munmap(m, 4096);
	close(fd);
}

static void use_streams(void)
{
	FILE *f = fopen(IN_DIR("stream"), "w");
	char line[64];
	int n = 0;

	assert(f && fileno(f) > 2);
	for (int i = 0; i < 1000; i++)
		assert(fprintf(f, "line %d\n", i) > 0);
	assert(fflush(f) == 0 && fsync(fileno(f)) == 0 && fclose(f) == 0);
	f = fopen(IN_DIR("stream"), "r+");
	while (fgets(line, sizeof line, f))
		n++;
	assert(n == 1000 && strcmp(line, "line 999\n") == 0);
	assert(fseek(f, 5, SEEK_SET) == 0 && fscanf(f, "%d", &n) == 1 && n == 0);
	assert(fseek(f, 0, SEEK_SET) == 0 && fputs("LINE", f) >= 0 && ftell(f) == 4);
	assert(fclose(f) == 0);
	f = fopen(IN_DIR("stream"), "a");
	assert(f && fputs("end\n", f) >= 0 && fclose(f) == 0);
	f = fopen(IN_DIR("stream"), "r");
	assert(fgets(line, sizeof line, f) && strcmp(line, "LINE 0\n") == 0);
	assert(fseek(f, -4, SEEK_END) == 0 && fgets(line, sizeof line, f));
	assert(strcmp(line, "end\n") == 0 && fclose(f) == 0);
	assert(!fopen(IN_DIR("none"), "q") && errno == EINVAL);
	assert(!fopen(IN_DIR("none"), "r") && errno == ENOENT);
}

static void use_wide_streams(void)
{
	FILE *f = fopen(IN_DIR("stream"), "w+");
	wchar_t line[64];
	int n = 0;

	assert(f && fwide(f, 0) == 0 && fputws(L"wide\n", f) >= 0);
	assert(fwide(f, 0) > 0 && fwprintf(f, L"%d %ls\n", 42, L"and more") == 12);
	assert(fputwc(L'z', f) == L'z');
	rewind(f);
	assert(fgetws(line, 64, f) && wcscmp(line, L"wide\n") == 0);
	assert(fwscanf(f, L"%d%ls", &n, line) == 2 && n == 42);
	assert(wcscmp(line, L"and") == 0);
	assert(fgetws(line, 64, f) && wcscmp(line, L" more\n") == 0);
	assert(ungetwc(L'a', f) == L'a' && fgetwc(f) == L'a' && fgetwc(f) == L'z');
	assert(fgetwc(f) == WEOF && feof(f) && fclose(f) == 0);
	assert(!fopen(IN_DIR("stream"), "r,ccs=UTF-16") && errno == EINVAL);
}

static void use_temporary_files(void)
{
	char one[] = IN_DIR("XXXXXX"), other[] = IN_DIR("XXXXXX");
	char bad[] = IN_DIR("XXXXX");
	int fd = mkstemp(one), more = mkostemp(other, O_CLOEXEC);

	assert(fd >= 0 && more >= 0 && strcmp(one, other) != 0);
	assert(write(fd, "new", 3) == 3 && fsync(fd) == 0 && close(fd) == 0);
	assert(rename(one, IN_DIR("named")) == 0 && access(one, F_OK) < 0);
	assert(unlink(IN_DIR("named")) == 0 && unlink(other) == 0 && close(more) == 0);
	assert(mkstemp(bad) < 0 && errno == EINVAL);
}

/* Of a file that only the simulation has, by functions of libc that open files. */
static void use_found_files(void)
{
	FILE *file = fopen(IN_DIR("one.found"), "w");
	struct stat s;
	glob_t found;
	char line[8];
	int fd;

	assert(file && fputs("one\n", file) >= 0);
	file = freopen(IN_DIR("two.found"), "w+", file);
	assert(file && fputs("two\n", file) >= 0);
	assert(fflush(file) == 0 && fallocate(fileno(file), 0, 0, 5000) == 0);
	assert(fstat(fileno(file), &s) == 0 && s.st_size == 5000 && fclose(file) == 0);
	assert(glob(IN_DIR("*.found"), 0, NULL, &found) == 0 && found.gl_pathc == 2);
	file = freopen(found.gl_pathv[1], "r", fopen(found.gl_pathv[0], "r"));
	assert(file && fgets(line, sizeof line, file) && strcmp(line, "two\n") == 0);
	assert(fclose(file) == 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		assert(unlink(found.gl_pathv[i]) == 0);
	globfree(&found);
	file = freopen(IN_DIR("new"), "wx", fopen("/dev/null", "r"));
	fd = fileno(file);
	assert(fputs("new", file) >= 0 && stat(IN_DIR("new"), &s) == 0);
	assert(!freopen(IN_DIR("nothing"), "r", file) && errno == ENOENT);
	assert(close(fd) < 0 && stat(IN_DIR("new"), &s) == 0 && s.st_size == 3);
	file = fopen(IN_DIR("new"), "r");
	assert(!freopen(IN_DIR("nothing"), "r", file) && errno == ENOENT);
	assert(unlink(IN_DIR("new")) == 0);
}

static void use_directories(void)
{
	int fd, in;

	assert(mkdir(IN_DIR("dir"), 0755) == 0 && mkdir(IN_DIR("dir"), 0755) < 0);
	fd = open(IN_DIR("dir"), O_RDONLY | O_DIRECTORY);
	in = openat(fd, "inner", O_CREAT | O_WRONLY, 0600);
	assert(fd >= 0 && in >= 0 && write(in, "1", 1) == 1 && close(in) == 0);
	assert(fsync(fd) == 0 && mkdir(IN_DIR("dir/z"), 0700) == 0);
	assert(unlink(IN_DIR("dir/z")) < 0 && errno == EISDIR);
	assert(unlink(IN_DIR("dir/inner")) == 0 && close(fd) == 0);
	assert(mkdir(IN_DIR("a/b"), 0700) < 0 && errno == ENOTDIR);
	assert(access(IN_DIR("no/../a"), F_OK) < 0 && errno == ENOENT);
	assert(rename(IN_DIR("a"), IN_DIR("map")) == 0 && access(IN_DIR("a"), F_OK) < 0);
	assert(unlink(IN_DIR("map")) == 0 && remove(IN_DIR("stream")) == 0);
}

/* Copies by the kernel change the time of a file, too. */
static void copy_into(int fd)
{
	int from = open(IN_DIR("from"), O_CREAT | O_EXCL | O_RDWR, 0600);
	off_t at = 0, to = 0;
	struct stat s;

	assert(write(from, "abc", 3) == 3);
	assert(futimens(fd, (const struct timespec[]){ { 1, 0 }, { 2, 0 } }) == 0);
	assert(sendfile(fd, from, &at, 3) == 3 && fstat(fd, &s) == 0);
	assert(s.st_mtime > 1000000 && at == 3);
	assert(futimens(fd, (const struct timespec[]){ { 1, 0 }, { 2, 0 } }) == 0);
	at = 1;
	assert(copy_file_range(from, &at, fd, &to, 2, 0) == 2 && fstat(fd, &s) == 0);
	assert(s.st_mtime > 1000000 && to == 2);
	assert(close(from) == 0 && unlink(IN_DIR("from")) == 0);
}

/* The mode, the owner and the times of a file are those that were set last. */
static void use_attributes(void)
{
	const struct timespec both[] = { { 7, 8 }, { 0, UTIME_OMIT } };
	const struct timespec bad[] = { { 0, -1 }, { 0, 0 } };
	const struct timeval times[] = { { 3, 4 }, { 5, 6 } };
	int fd = open(IN_DIR("mode"), O_CREAT | O_WRONLY, 0600);
	struct stat s, real;

	assert(fd >= 0 && fstat(fd, &s) == 0 && s.st_uid == geteuid());
	assert(chmod(IN_DIR("mode"), 0751) == 0 && stat(IN_DIR("mode"), &s) == 0);
	assert(s.st_mode == (S_IFREG | 0751));
	assert(fchmod(fd, 0640) == 0 && fstat(fd, &s) == 0);
	assert(s.st_mode == (S_IFREG | 0640));
	assert(fchmodat(AT_FDCWD, DIR_NAME, 0700, 0) == 0 && stat(DIR_NAME, &s) == 0);
	assert(s.st_mode == (S_IFDIR | 0700));
	assert(chown(IN_DIR("mode"), 11, (gid_t)-1) == 0);
	assert(fchown(fd, (uid_t)-1, 12) == 0);
	assert(fstat(fd, &s) == 0 && s.st_uid == 11 && s.st_gid == 12);
	assert(utimes(IN_DIR("mode"), times) == 0 && fstat(fd, &s) == 0);
	assert(s.st_atime == 3 && s.st_mtim.tv_sec == 5 && s.st_mtim.tv_nsec == 6000);
	assert(s.st_ctime > 1000000 && futimens(fd, both) == 0 && fstat(fd, &s) == 0);
	assert(s.st_atim.tv_nsec == 8 && s.st_mtim.tv_sec == 5);
	assert(utimensat(AT_FDCWD, IN_DIR("mode"), bad, 0) < 0 && errno == EINVAL);
	assert(utime(IN_DIR("mode"), &(struct utimbuf){ 1, 2 }) == 0);
	assert(fstat(fd, &s) == 0 && s.st_atime == 1 && s.st_mtime == 2);
	assert(write(fd, "x", 1) == 1 && fstat(fd, &s) == 0 && s.st_mtime > 1000000);
	assert(utime(IN_DIR("mode"), &(struct utimbuf){ 1, 2 }) == 0);
	assert(close(open(IN_DIR("mode"), O_WRONLY | O_TRUNC)) == 0);
	assert(fstat(fd, &s) == 0 && s.st_size == 0 && s.st_mtime > 1000000);
	assert(utime(IN_DIR("no"), NULL) < 0 && errno == ENOENT);
	assert(fchmod(-1, 0600) < 0 && errno == EBADF);
	assert(fchmod(STDOUT_FILENO, 0600) == 0);
	copy_into(fd);
	assert(chmod("/dev/null", 0) == 0 && stat("/dev/null", &real) == 0);
	assert(real.st_mode & 0666 && close(fd) == 0);
}

/* A file without a name keeps its status while it is open. */
static void use_unlinked_file(void)
{
	int fd = open(IN_DIR("gone"), O_CREAT | O_RDWR, 0640);
	struct stat s, t;

	assert(fd >= 0 && fstat(fd, &s) == 0 && unlink(IN_DIR("gone")) == 0);
	assert(write(fd, "abc", 3) == 3 && fchmod(fd, 0600) == 0);
	assert(fstat(fd, &t) == 0 && t.st_ino == s.st_ino && t.st_size == 3);
	assert(t.st_mode == (S_IFREG | 0600) && close(fd) == 0);
}

/* A file with two names is one file, and a directory that moves keeps what is in it. */
static void use_more_names(void)
{
	struct stat s, t;
	char path[256];
	int fd, dir;

	fd = open(IN_DIR("one"), O_CREAT | O_RDWR, 0600);
	assert(link(IN_DIR("one"), IN_DIR("two")) == 0 && write(fd, "abc", 3) == 3);
	assert(stat(IN_DIR("two"), &s) == 0 && s.st_size == 3 && s.st_nlink == 2);
	assert(link(IN_DIR("one"), IN_DIR("two")) < 0 && errno == EEXIST);
	assert(link(IN_DIR("no"), IN_DIR("three")) < 0 && errno == ENOENT);
	assert(link(DIR_NAME, IN_DIR("three")) < 0 && errno == EPERM);
	assert(rename(IN_DIR("one"), IN_DIR("two")) == 0 && unlink(IN_DIR("one")) == 0);
	assert(linkat(fd, "", AT_FDCWD, IN_DIR("one"), AT_EMPTY_PATH) == 0);
	assert(unlink(IN_DIR("one")) == 0 && unlink(IN_DIR("two")) == 0);
	assert(fstat(fd, &t) == 0 && t.st_ino == s.st_ino && t.st_nlink == 0);
	assert(close(fd) == 0);

	assert(mkdir(IN_DIR("old"), 0700) == 0 && mkdir(IN_DIR("old/sub"), 0700) == 0);
	assert(close(open(IN_DIR("old/sub/file"), O_CREAT | O_WRONLY, 0600)) == 0);
	dir = open(IN_DIR("old/sub"), O_RDONLY);
	assert(chdir(IN_DIR("old/sub")) == 0 && mkdir(IN_DIR("new"), 0700) == 0);
	assert(rename(IN_DIR("old"), IN_DIR("old/sub/in")) < 0 && errno == EINVAL);
	assert(rename(IN_DIR("new"), IN_DIR("old")) < 0 && errno == ENOTEMPTY);
	assert(rename(IN_DIR("old"), IN_DIR("new")) == 0);
	assert(access(IN_DIR("old"), F_OK) < 0 && errno == ENOENT);
	assert(access(IN_DIR("new/sub/file"), F_OK) == 0 && access("file", F_OK) == 0);
	assert(strcmp(getcwd(path, sizeof path), IN_DIR("new/sub")) == 0);
	assert(!getcwd(path, strlen(path)) && errno == ERANGE);
	assert(!getcwd(NULL, strlen(path)) && errno == ERANGE);
	assert(!getcwd(path, 0) && errno == EINVAL);
	assert(faccessat(dir, "file", F_OK, 0) == 0 && access("../sub", F_OK) == 0);
	assert(unlinkat(dir, "file", 0) == 0 && rmdir(IN_DIR("new/sub")) == 0);
	assert(openat(dir, "file", O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT);
	assert(!getcwd(path, sizeof path) && errno == ENOENT && chdir("/") == 0);
	assert(strcmp(getcwd(path, sizeof path), "/") == 0);
	assert(rmdir(IN_DIR("new")) == 0 && close(dir) == 0);
}

/* Reads a directory, and returns the names in it with a space before each. */
static const char *list(DIR *dir)
{
	static char all[4096];
	const struct dirent *e;

	*all = '\0';
	errno = 0;
	while ((e = readdir(dir)))
		strcat(strcat(all, " "), e->d_name);
	assert(errno == 0);
	return all;
}

static int is_long(const struct dirent *e)
{
	return strlen(e->d_name) > 2;
}

static void list_directories(void)
{
	char made[] = IN_DIR("dXXXXXX");
	struct dirent **found, *e;
	struct stat s;
	DIR *dir;
	long at;
	int fd;

	assert(mkdtemp(made) == made && stat(made, &s) == 0 && S_ISDIR(s.st_mode));
	assert(chdir(made) == 0);
	for (char name[] = "c"; *name >= 'a'; --*name)
		assert(close(open(name, O_CREAT | O_WRONLY, 0600)) == 0);
	assert(mkdir("sub", 0700) == 0 && mkdir("sub/sub", 0700) == 0);
	dir = opendir(".");
	assert(dir && fstat(dirfd(dir), &s) == 0 && S_ISDIR(s.st_mode));
	assert(strcmp(list(dir), " . .. c b a sub") == 0);
	assert(unlink("b") == 0 && strcmp(list(dir), "") == 0);
	rewinddir(dir);
	assert((e = readdir(dir)) && e->d_type == DT_DIR && readdir(dir));
	at = telldir(dir);
	assert((e = readdir(dir)) && e->d_type == DT_REG && strcmp(e->d_name, "c") == 0);
	assert(stat("c", &s) == 0 && e->d_ino == s.st_ino);
	assert(strcmp(list(dir), " a sub") == 0);
	seekdir(dir, at);
	assert(strcmp(list(dir), " c a sub") == 0);
	fd = dirfd(dir);
	assert(closedir(dir) == 0 && fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	assert(!opendir("a") && errno == ENOTDIR && !opendir("b") && errno == ENOENT);
	fd = open("sub", O_RDONLY);
	dir = fdopendir(fd);
	assert(dir && dirfd(dir) == fd && strcmp(list(dir), " . .. sub") == 0);
	assert(closedir(dir) == 0 && scandir(".", &found, is_long, alphasort) == 1);
	assert(strcmp(found[0]->d_name, "sub") == 0);
	free(found[0]);
	free(found);
	assert(rmdir("sub") < 0 && errno == ENOTEMPTY && rmdir("a") < 0);
	assert(errno == ENOTDIR);
	fd = open("sub", O_RDONLY);
	assert(rmdir("sub/sub") == 0 && mkdirat(fd, "at", 0700) == 0);
	assert(faccessat(fd, "at", F_OK, 0) == 0 && rmdir("sub") < 0);
	assert(renameat(AT_FDCWD, "c", fd, "c") == 0 && access("sub/c", F_OK) == 0);
	assert(renameat2(fd, "c", AT_FDCWD, "a", RENAME_NOREPLACE) < 0);
	assert(errno == EEXIST);
	assert(renameat2(fd, "c", AT_FDCWD, "c", RENAME_NOREPLACE) == 0);
	assert(unlinkat(fd, "at", 0) < 0 && errno == EISDIR);
	assert(unlinkat(fd, "at", AT_REMOVEDIR) == 0 && close(fd) == 0);
	fd = open("..", O_RDONLY);
	assert(remove("sub") == 0 && rmdir("sub") < 0);
	assert(errno == ENOENT && scandir(".", &found, NULL, NULL) == 4);
	for (int i = 0; i < 4; i++)
		free(found[i]);
	free(found);
	assert(fchdir(fd) == 0 && access("mode", F_OK) == 0 && close(fd) == 0);
}

/* Returns whether a name is in a directory. */
static int is_there(const char *directory, const char *name)
{
	struct dirent **found;
	int n = scandir(directory, &found, NULL, alphasort), there = 0;

	assert(n >= 2);
	while (n-- > 0) {
		there |= strcmp(found[n]->d_name, name) == 0;
		free(found[n]);
	}
	free(found);
	return there;
}

/* Returns the inode that readdir() tells of a name, or 0. */
static ino_t inode_in(const char *directory, const char *name)
{
	DIR *dir = opendir(directory);
	const struct dirent *e;
	ino_t inode = 0;

	while ((e = readdir(dir)))
		if (strcmp(e->d_name, name) == 0)
			inode = e->d_ino;
	assert(closedir(dir) == 0);
	return inode;
}

/* A real directory has real files, and the changes of the program. */
static void list_real_directories(void)
{
	struct stat s;

	assert(rename("/etc", IN_DIR("etc")) == 0 && access("/etc", F_OK) < 0);
	assert(access(IN_DIR("etc/passwd"), F_OK) == 0);
	assert(is_there(IN_DIR("etc"), "group"));
	assert(rename(IN_DIR("etc"), "/etc") == 0);
	assert(is_there("/etc", "passwd") && is_there("/etc", "group"));
	assert(unlink("/etc/group") == 0 && !is_there("/etc", "group"));
	assert(close(open("/etc/aaa", O_CREAT | O_WRONLY, 0600)) == 0);
	assert(is_there("/etc", "aaa") && rmdir("/etc") < 0 && errno == ENOTEMPTY);
	assert(is_there("/proc/self", "stat"));
	assert(stat("/etc/hostname", &s) < 0 || inode_in("/etc", "hostname") == s.st_ino);
}

static void use_real_files(void)
{
	char line[256];
	FILE *f = fopen("/etc/passwd", "r");
	struct stat s;
	int n, fd;

	assert(f && fgets(line, sizeof line, f) && fclose(f) == 0);
	assert(stat("/etc/passwd", &s) == 0 && s.st_size > 0 && S_ISREG(s.st_mode));
	assert(unlink("/etc/passwd") == 0 && access("/etc/passwd", F_OK) < 0);
	f = fopen("/etc/passwd", "w");
	assert(f && fputs("mine\n", f) >= 0 && fclose(f) == 0);
	f = fopen("/dev/null", "w");
	assert(f && fputs("x", f) >= 0 && fclose(f) == 0);
	assert(access("/dev/null", W_OK) == 0);
	f = fopen("/proc/self/stat", "r");
	assert(f && fgets(line, sizeof line, f) && fclose(f) == 0);
	fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
	assert(faccessat(fd, "stat", R_OK, 0) == 0 && fstatat(fd, "no", &s, 0) < 0);
	assert(close(fd) == 0);
	n = access("/etc/shadow", R_OK);        /* which not all may read */
	f = fopen("/etc/shadow", "r");
	assert((n == 0) == (f != NULL));
	assert(f ? fgets(line, sizeof line, f) && fclose(f) == 0
	       : errno == EACCES || errno == ENOENT);
	assert(chdir("/etc") == 0 && access("passwd", F_OK) == 0);
	f = fopen("../etc/passwd", "r");
	assert(f && fgets(line, sizeof line, f) && strcmp(line, "mine\n") == 0);
	fclose(f);
}

int main(void)
{
	const struct rlimit few = { 100, 100 };

	assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
	assert(mkdir(DIR_NAME, 0755) == 0);
	use_descriptors();
	use_mappings();
	use_streams();
	use_wide_streams();
	use_temporary_files();
	use_found_files();
	use_directories();
	use_attributes();
	use_unlinked_file();
	use_more_names();
	list_directories();
	list_real_directories();
	use_real_files();
	puts("done");
	return 0;
}
