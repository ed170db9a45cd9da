/* SPDX-License-Identifier: MIT */
/*
 * Files: all calls of a program on them, without crashes. Nothing of it is on the disk
 * afterwards, and real files can be read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* mkostemp() */
#endif
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
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
	assert(statx(AT_FDCWD, IN_DIR("b"), 0, STATX_SIZE, &x) < 0 && errno == ENOENT);
	assert(dup2(fd, more) == more && fstat(more, &t) == 0 && t.st_ino == s.st_ino);
	close(more);
	close(fd);
	assert(access(IN_DIR("a"), R_OK) == 0 && access(IN_DIR("b"), F_OK) < 0);
	assert(open(IN_DIR("b"), O_RDONLY) < 0 && errno == ENOENT);
	assert(open(IN_DIR("no/b"), O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT);
	assert(open(IN_DIR("a/b"), O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOTDIR);
}

static void use_mappings(void)
{
	int fd = open(IN_DIR("map"), O_CREAT | O_RDWR, 0600);
	char *m, c;

	assert(ftruncate(fd, 4096) == 0);
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
	assert(rename(IN_DIR("a"), IN_DIR("map")) == 0 && access(IN_DIR("a"), F_OK) < 0);
	assert(unlink(IN_DIR("map")) == 0 && remove(IN_DIR("stream")) == 0);
}

static void use_real_files(void)
{
	char line[256];
	FILE *f = fopen("/etc/passwd", "r");
	struct stat s;
	int n;

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
	assert(mkdir(DIR_NAME, 0755) == 0);
	use_descriptors();
	use_mappings();
	use_streams();
	use_wide_streams();
	use_temporary_files();
	use_directories();
	use_real_files();
	puts("done");
	return 0;
}
