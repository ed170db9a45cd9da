/* SPDX-License-Identifier: MIT */
/*
 * uposix_stdio.c: streams of libc over descriptors for which threads wait.
 *
 * libc's streams call read and write inside of libc. So fdopen() of a socket or pipe
 * makes a stream with functions of this library, by fopencookie(). In a simulation, where
 * writes may fail, fdopen() of a file does so, too. Such a stream is called ours. libc
 * would lock a stream for a native thread, that is, for all threads of a processor. So
 * libc's lock is off for our streams, and the calls here take a mutex instead.
 *
 * The standard streams, and those of fopen() and popen(), are libc's. Before a call reads
 * with an empty buffer, the thread waits for the descriptor. While libc itself waits for
 * the rest of a line, or for room to write, the processor is blocked.
 *
 * flockfile() of a stream of libc makes an entry with a mutex. From then on the calls
 * here take that mutex.
 *
 * libc has no wide characters for streams of fopencookie(), so the calls here convert
 * them to bytes. Our streams have an unused wide part, which lets libc's own wide
 * functions fail; without this part the functions would crash.
 *
 * Our streams have a file number of their own, so that calls on other streams need no
 * look-up. libc gives -2 to streams of fopencookie(), and treats all negative numbers
 * except -1 alike.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "../src/base/sim.h"
#include "uposix_io.h"

#include <stdarg.h>
#include <stdio.h>
#include <limits.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUCKETS = 256, OURS = -3, MS = 1000000 };   /* MS: ns in a millisecond */

struct stream {
	struct stream     *s_next;
	FILE              *s_file;
	int                s_fd;        /* descriptor, or -1 for a stream of libc */
	FILE              *s_usual;     /* stream of libc, for the wide part and
					   fwide() */
	unsigned           s_depth;     /* how often the owner has locked the stream
					   again */
	unsigned           s_users;     /* number of calls that are flushing all streams,
					   including this stream; under streams_lock */
	bool               s_ends;      /* true while the stream is being closed; under
					   streams_lock */
	struct usync_mutex s_mutex;
};

static struct stream *streams[BUCKETS];
static unsigned locked;                 /* number of entries for streams of libc;
					   atomic */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

int __isoc99_vfscanf(FILE *file, const char *format, va_list list);
int __isoc23_vfscanf(FILE *file, const char *format, va_list list) __attribute__((weak));
int __isoc99_vfwscanf(FILE *file, const wchar_t *format, va_list list);
int __isoc23_vfwscanf(FILE *file, const wchar_t *format, va_list list)
	__attribute__((weak));
int __uflow(FILE *file);
int __underflow(FILE *file);

/* Streams. */

static struct stream **place_of(const FILE *file)
{
	return &streams[(uintptr_t)file / 64 % BUCKETS];
}

static struct stream *find(const FILE *file)
{
	struct stream *s;

	for (s = *place_of(file); s && s->s_file != file; s = s->s_next)
		;
	return s;
}

static void hold_streams(int on)
{
	(on ? pthread_mutex_lock : pthread_mutex_unlock)(&streams_lock);
}

/* Returns the entry of a stream of ours, or NULL if the stream is libc's. */
static struct stream *stream_of(FILE *file)
{
	struct stream *s;

	if (file->_fileno != OURS)
		return NULL;
	pthread_mutex_lock(&streams_lock);
	s = find(file);
	pthread_mutex_unlock(&streams_lock);
	return s && s->s_fd >= 0 ? s : NULL;
}

/*
 * Returns the entry of a stream. If the stream is libc's and no call of flockfile() has
 * made an entry, returns NULL.
 */
static struct stream *known_stream(FILE *file)
{
	struct stream *s;

	if (__builtin_expect(file->_fileno != OURS
			     && !__atomic_load_n(&locked, __ATOMIC_ACQUIRE), 1))
		return NULL;
	pthread_mutex_lock(&streams_lock);
	s = find(file);
	pthread_mutex_unlock(&streams_lock);
	return s;
}

/*
 * Returns the entry of a stream. If the stream has no entry, makes one, or returns NULL
 * if there is no memory for an entry.
 */
static struct stream *lockable(FILE *file)
{
	struct stream *new = known_stream(file), *s = new;

	if (s)
		return s;
	new = calloc(1, sizeof *new);
	if (!new)
		return NULL;
	new->s_fd = -1;
	new->s_file = file;
	pthread_mutex_lock(&streams_lock);
	s = find(file);
	if (!s) {
		new->s_next = *place_of(file);
		*place_of(file) = new;
		__atomic_fetch_add(&locked, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&streams_lock);
	if (s)
		free(new);
	return s ? s : new;
}

void uposix__end_stream(const FILE *file)
{
	struct stream *s, **at;

	if (!__atomic_load_n(&locked, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&streams_lock);
	for (at = place_of(file); (s = *at) && s->s_file != file; at = &s->s_next)
		;
	if (s) {
		*at = s->s_next;
		__atomic_fetch_sub(&locked, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&streams_lock);
	free(s);
}

/* As in libc, no stream is locked in the child of a fork. */
static void streams_forked(void)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct stream *s = streams[i]; s; s = s->s_next) {
			s->s_mutex = (struct usync_mutex){ 0 };
			s->s_depth = s->s_users = 0;
			s->s_ends = false;
		}
}

UPOSIX_AT_FORK(UPOSIX_STREAMS, hold_streams, streams_forked)

static ssize_t read_stream(void *cookie, char *buffer, size_t size)
{
	return uposix_read(((struct stream *)cookie)->s_fd, buffer, size);
}

/* Returns 0 after an error, as libc expects. */
static ssize_t write_stream(void *cookie, const char *data, size_t size)
{
	ssize_t n = uposix_write(((struct stream *)cookie)->s_fd, data, size);

	return n < 0 ? 0 : n;
}

static int seek_stream(void *cookie, off64_t *at, int whence)
{
	*at = lseek(((struct stream *)cookie)->s_fd, *at, whence);
	return *at < 0 ? -1 : 0;
}

/* Removes the entry of a stream of ours, and returns the descriptor. */
static int let_go(struct stream *s)
{
	struct stream **at;
	int fd = s->s_fd;

	pthread_mutex_lock(&streams_lock);
	for (at = place_of(s->s_file); *at != s; at = &(*at)->s_next)
		;
	*at = s->s_next;
	pthread_mutex_unlock(&streams_lock);
	free(s);
	return fd;
}

static int close_stream(void *cookie)
{
	fclose(((struct stream *)cookie)->s_usual);
	return uposix_close(let_go(cookie));
}

/*
 * Calls libc's fdopen() first, which checks the arguments. Leaves out the mode "m", by
 * which libc would map the file into memory.
 */
FILE *uposix_fdopen(int fd, const char *mode)
{
	int kind = uposix__kind(fd);
	const char usual[] = { mode[0], mode[0] && strchr(mode, '+') ? '+' : '\0', '\0' };
	const cookie_io_functions_t functions = {
		.read = read_stream, .write = write_stream, .close = close_stream,
		.seek = kind == PLAIN ? seek_stream : NULL,
	};
	struct stream *s;

	if (kind == FOREIGN || (kind == PLAIN && !SIMULATED) || !uposix__known(fd))
		return fdopen(fd, mode);
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->s_fd = fd;
	s->s_usual = fdopen(fd, usual);
	if (s->s_usual) {
		s->s_usual->_fileno = -1;       /* so that fclose() leaves `fd' open */
		s->s_file = fopencookie(s, mode, functions);
	}
	if (!s->s_file) {
		if (s->s_usual)
			fclose(s->s_usual);
		free(s);
		return NULL;
	}
	s->s_file->_fileno = OURS;
	s->s_file->_wide_data = s->s_usual->_wide_data;
	__fsetlocking(s->s_file, FSETLOCKING_BYCALLER);
	pthread_mutex_lock(&streams_lock);
	s->s_next = *place_of(s->s_file);
	*place_of(s->s_file) = s;
	pthread_mutex_unlock(&streams_lock);
	return s->s_file;
}

/*
 * Waits until the calls that flush all streams have ended. In libc, fclose() waits for
 * them by a lock.
 */
static void await_users(FILE *file)
{
	int before = ustack_shield(1);
	bool used = true;

	while (used) {
		struct stream *s;

		pthread_mutex_lock(&streams_lock);
		s = find(file);
		used = s && s->s_users > 0;
		if (s)
			s->s_ends = true;
		pthread_mutex_unlock(&streams_lock);
		if (used && ustack_self())
			usync_sleep_until(usync_after(MS));
		else if (used)
			usleep(MS / 1000);
	}
	if (before >= 0)
		ustack_shield(before);
}

/* If the stream is not ours, libc closes the descriptor without uposix_close(). */
int uposix_fclose(FILE *file)
{
	uposix__pace();
	if (known_stream(file))
		await_users(file);
	if (!stream_of(file)) {
		uposix__gone(fileno(file));
		uposix__end_stream(file);
	}
	return fclose(file);
}

/* freopen() turns a stream of ours into a stream of libc. The wide part stays. */
FILE *uposix_freopen(const char *path, const char *mode, FILE *file)
{
	struct stream *s = (uposix__pace(), stream_of(file));

	if (s) {
		uposix_fflush(file);
		await_users(file);
		__fsetlocking(file, FSETLOCKING_INTERNAL);
		file->_fileno = let_go(s);
	}
	uposix__release(fileno(file));
	return freopen(path, mode, file);
}

FILE *uposix_freopen64(const char *path, const char *mode, FILE *file)
	UPOSIX_ALIAS(freopen);

int uposix_fileno(FILE *file)
{
	const struct stream *s = stream_of(file);

	return s ? s->s_fd : fileno(file);
}

int uposix_fileno_unlocked(FILE *file) UPOSIX_ALIAS(fileno);

/* Locks. */

static struct stream *lock(FILE *file)
{
	struct stream *s = known_stream(file);
	int error = errno, before, rc;

	if (!s)
		return NULL;
	before = ustack_shield(1);
	rc = usync_mutex_lock(&s->s_mutex, USCHED_NEVER);
	if (rc == -EDEADLK)
		s->s_depth++;
	if (before >= 0)
		ustack_shield(before);
	errno = error;
	return s;
}

static void unlock(struct stream *s)
{
	if (s && s->s_depth > 0)
		s->s_depth--;
	else if (s)
		usync_mutex_unlock(&s->s_mutex);
}

static void leave(struct stream **s)
{
	unlock(*s);
}

void uposix_flockfile(FILE *file)
{
	if (!lockable(file) || !lock(file))
		flockfile(file);
}

void uposix_funlockfile(FILE *file)
{
	struct stream *s = known_stream(file);

	if (s)
		unlock(s);
	else
		funlockfile(file);
}

int uposix_ftrylockfile(FILE *file)
{
	struct stream *s = lockable(file);
	int rc;

	uposix__pace_lock();
	if (!s)
		return ftrylockfile(file);
	rc = usync_mutex_lock(&s->s_mutex, 0);
	if (rc == -EDEADLK)
		s->s_depth++;
	return rc == 0 || rc == -EDEADLK ? 0 : EBUSY;
}

/* Waits for input of a stream of libc. Errors are left to libc's call. */
static void await_input(FILE *file)
{
	struct uposix_fd *f;
	int error = errno;

	if (file->_IO_read_ptr < file->_IO_read_end || !uposix__in_thread()
	    || file->_fileno < 0 || uposix__kind(file->_fileno) != FOREIGN)
		return;
	uposix__way(file->_fileno, POLLIN, &f);
	errno = error;
}

/*
 * Define calls of libc that are made with the stream locked. In calls defined by READS a
 * thread first waits for input.
 */
#define LOCKED(type, name, parameters, file, call) \
	CALL(type, name, parameters, file, call, (void)0)
#define READS(type, name, parameters, file, call) \
	CALL(type, name, parameters, file, call, await_input(file))
#define CALL(type, name, parameters, file, call, begin)				\
	type uposix_##name parameters						\
	{									\
		CLEANUP(leave) struct stream *s_ = (uposix__pace_lock(),	\
						    lock(file));		\
										\
		if (!s_ || s_->s_fd < 0)					\
			begin;							\
		return call;							\
	}

#define RETURNS(type, name, parameters, call)					\
	type uposix_##name parameters						\
	{									\
		return call;							\
	}

/* Defines name(...), which turns its arguments into a va_list for the call. */
#define WITH_LIST(name, parameters, last, call)					\
	int uposix_##name parameters						\
	{									\
		va_list list;							\
		int n;								\
										\
		va_start(list, last);						\
		n = call;							\
		va_end(list);							\
		return n;							\
	}

/*
 * Functions that print, by vfprintf(). The functions for _FORTIFY_SOURCE have a flag that
 * asks for checks.
 */
#define PRINTS(print, type, by)							\
	int __vf##print##_chk(FILE *file, int flag, const type *format,		\
			      va_list list);					\
	LOCKED(int, vf##print, (FILE *file, const type *format, va_list list), file, \
	       by(print_wide(file, format, list), vf##print(file, format, list)))	\
	LOCKED(int, __vf##print##_chk,						\
	       (FILE *file, int flag, const type *format, va_list list), file,	\
	       by(print_wide(file, format, list),				\
		  __vf##print##_chk(file, flag, format, list)))			\
	WITH_LIST(f##print, (FILE *file, const type *format, ...), format,	\
		  uposix_vf##print(file, format, list))				\
	WITH_LIST(__f##print##_chk, (FILE *file, int flag, const type *format, ...), \
		  format, uposix___vf##print##_chk(file, flag, format, list))	\
	WITH_LIST(print, (const type *format, ...), format,			\
		  uposix_vf##print(stdout, format, list))			\
	WITH_LIST(__##print##_chk, (int flag, const type *format, ...), format,	\
		  uposix___vf##print##_chk(stdout, flag, format, list))		\
	RETURNS(int, v##print, (const type *format, va_list list),		\
		uposix_vf##print(stdout, format, list))				\
	RETURNS(int, __v##print##_chk, (int flag, const type *format, va_list list), \
		uposix___vf##print##_chk(stdout, flag, format, list))

/* Functions that scan, by a version of vfscanf(). */
#define SCANS(version, scan, type, by)						\
	READS(int, version##vf##scan,						\
	      (FILE *file, const type *format, va_list list), file,		\
	      by(scan_wide(file, format, list, version##vf##scan),		\
		 version##vf##scan(file, format, list)))			\
	WITH_LIST(version##f##scan, (FILE *file, const type *format, ...), format, \
		  uposix_##version##vf##scan(file, format, list))		\
	WITH_LIST(version##scan, (const type *format, ...), format,		\
		  uposix_##version##vf##scan(stdin, format, list))		\
	RETURNS(int, version##v##scan, (const type *format, va_list list),	\
		uposix_##version##vf##scan(stdin, format, list))

#define BYTES(wide, call) call

READS(char *, fgets, (char *text, int size, FILE *file), file, fgets(text, size, file))
READS(int, fgetc, (FILE *file), file, fgetc(file))
READS(int, getc, (FILE *file), file, getc(file))
LOCKED(int, ungetc, (int c, FILE *file), file, ungetc(c, file))
LOCKED(int, fputs, (const char *text, FILE *file), file, fputs(text, file))
LOCKED(int, fputc, (int c, FILE *file), file, fputc(c, file))
LOCKED(int, putc, (int c, FILE *file), file, putc(c, file))
READS(size_t, fread, (void *to, size_t size, size_t n, FILE *file), file,
       fread(to, size, n, file))
LOCKED(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *file), file,
       fwrite(from, size, n, file))
READS(ssize_t, getline, (char **line, size_t *size, FILE *file), file,
       getline(line, size, file))
READS(ssize_t, getdelim, (char **line, size_t *size, int c, FILE *file), file,
       getdelim(line, size, c, file))
READS(ssize_t, __getdelim, (char **line, size_t *size, int c, FILE *file), file,
       getdelim(line, size, c, file))
LOCKED(int, puts, (const char *text), stdout, puts(text))
LOCKED(int, putchar, (int c), stdout, putchar(c))
READS(int, __uflow, (FILE *file), file, __uflow(file))
READS(int, __underflow, (FILE *file), file, __underflow(file))
PRINTS(printf, char, BYTES)
SCANS(, scanf, char, BYTES)
SCANS(__isoc99_, scanf, char, BYTES)
SCANS(__isoc23_, scanf, char, BYTES)

RETURNS(int, getchar, (void), uposix_getc(stdin))

/* ---- Wide characters ---- */

static int wide_error(FILE *file)
{
	errno = EILSEQ;
	file->_flags |= _IO_ERR_SEEN;
	return -1;
}

/* Bytes that form no character stay in the stream, as in libc. */
static wint_t get_wide(FILE *file)
{
	size_t got = 0, n = (size_t)-2;
	char bytes[MB_LEN_MAX];
	mbstate_t state = { 0 };
	wchar_t c = 0;
	int byte = 0;

	while (n == (size_t)-2 && got < sizeof bytes && (byte = fgetc(file)) != EOF) {
		bytes[got] = (char)byte;
		n = mbrtowc(&c, &bytes[got++], 1, &state);
	}
	if (n < (size_t)-2)
		return (wint_t)c;
	if (got == 0)
		return WEOF;
	while (got > 0)
		ungetc((unsigned char)bytes[--got], file);
	wide_error(file);
	return WEOF;
}

static wchar_t *gets_wide(wchar_t *text, int size, FILE *file)
{
	wint_t c = 0;
	int n = 0;

	while (n + 1 < size && c != L'\n' && (c = get_wide(file)) != WEOF)
		text[n++] = (wchar_t)c;
	if (size < 1 || (size > 1 && n == 0) || (c == WEOF && !feof(file)))
		return NULL;
	text[n] = L'\0';
	return text;
}

static wint_t unget_wide(wint_t c, FILE *file)
{
	char bytes[MB_LEN_MAX];
	size_t n = c == WEOF ? (size_t)-1
		: wcrtomb(bytes, (wchar_t)c, &(mbstate_t){ 0 });

	if (n == (size_t)-1)
		return WEOF;
	while (n > 0)
		if (ungetc((unsigned char)bytes[--n], file) == EOF)
			return WEOF;
	return c;
}

/* Writes `n' characters. Returns n or -1. */
static int put_wide(FILE *file, const wchar_t *text, size_t n)
{
	char bytes[MB_LEN_MAX];

	for (size_t i = 0; i < n; i++) {
		size_t size = wcrtomb(bytes, text[i], &(mbstate_t){ 0 });

		if (size == (size_t)-1)
			return wide_error(file);
		if (fwrite(bytes, 1, size, file) < size)
			return -1;
	}
	return (int)n;
}

static int print_wide(FILE *file, const wchar_t *format, va_list list)
{
	CLEANUP(uposix__free_it) wchar_t *text = NULL;
	size_t size = 0;
	FILE *to = open_wmemstream(&text, &size);
	int n = to ? vfwprintf(to, format, list) : -1;

	if (!to || fclose(to) || n < 0)
		return -1;
	return put_wide(file, text, size);
}

static void end_copy(FILE **copy)
{
	if (*copy)
		fclose(*copy);
}

/*
 * libc scans a file that is a copy of the input so far. If the copy is too short, the
 * thread waits for more input, and libc scans again from the beginning.
 */
static int scan_wide(FILE *file, const wchar_t *format, va_list list,
		     int (*scan)(FILE *file, const wchar_t *format, va_list list))
{
	int fd = memfd_create("scan", MFD_CLOEXEC), byte, rc;
	CLEANUP(end_copy) FILE *copy = fdopen(fd, "r+");
	off_t at = 0, more;
	va_list again;
	char b;

	if (!copy)
		return close(fd), EOF;
	do {
		byte = fgetc(file);
		more = byte == EOF || ungetc(byte, file) == EOF ? 0
			: file->_IO_read_end - file->_IO_read_ptr;
		if (pwrite(fd, file->_IO_read_ptr, (size_t)more, at) < more)
			return EOF;
		at += more;
		file->_IO_read_ptr += more;
		rewind(copy);
		va_copy(again, list);
		rc = scan(copy, format, again);
		va_end(again);
	} while (more > 0 && (feof(copy) || ferror(copy)));
	for (off_t end = ftell(copy); at > end && pread(fd, &b, 1, at - 1) == 1; at--)
		ungetc((unsigned char)b, file);
	return rc;
}

/*
 * Returns true if a wide call may use the stream: if the stream is ours, and fwide() has
 * not set it to bytes.
 */
static bool is_wide(const struct stream *s)
{
	return s && s->s_fd >= 0 && fwide(s->s_usual, 1) > 0;
}

#define WIDE(ours, call) (is_wide(s_) ? ours : call)

READS(wint_t, fgetwc, (FILE *file), file, WIDE(get_wide(file), fgetwc(file)))
wint_t uposix_getwc(FILE *file) UPOSIX_ALIAS(fgetwc);
READS(wchar_t *, fgetws, (wchar_t *text, int size, FILE *file), file,
      WIDE(gets_wide(text, size, file), fgetws(text, size, file)))
LOCKED(wint_t, ungetwc, (wint_t c, FILE *file), file,
       WIDE(unget_wide(c, file), ungetwc(c, file)))
LOCKED(wint_t, fputwc, (wchar_t c, FILE *file), file,
       WIDE(put_wide(file, &c, 1) < 0 ? WEOF : (wint_t)c, fputwc(c, file)))
wint_t uposix_putwc(wchar_t c, FILE *file) UPOSIX_ALIAS(fputwc);
LOCKED(int, fputws, (const wchar_t *text, FILE *file), file,
       WIDE(put_wide(file, text, wcslen(text)) < 0 ? -1 : 1, fputws(text, file)))
PRINTS(wprintf, wchar_t, WIDE)
SCANS(, wscanf, wchar_t, WIDE)
SCANS(__isoc99_, wscanf, wchar_t, WIDE)
SCANS(__isoc23_, wscanf, wchar_t, WIDE)

RETURNS(wint_t, getwchar, (void), uposix_fgetwc(stdin))
RETURNS(wint_t, putwchar, (wchar_t c), uposix_fputwc(c, stdout))

int uposix_fwide(FILE *file, int mode)
{
	const struct stream *s = stream_of(file);

	return fwide(s ? s->s_usual : file, mode);
}

/*
 * Calls for all streams. During such a call libc locks its list of streams, and fopen()
 * and fclose() of other threads would block their processors. So streams that may wait
 * are flushed before libc's call. If the process is ending, the streams are flushed
 * without a wait, and a locked stream is left to libc.
 */

void _IO_list_lock(void);
void _IO_list_unlock(void);
void *_IO_iter_begin(void);
void *_IO_iter_end(void);
void *_IO_iter_next(void *at);
FILE *_IO_iter_file(void *at);

/*
 * Stores the entries of all streams in *all, or NULL if there is no memory. Returns their
 * number. The streams stay open until flush_one().
 */
static size_t use_all(struct stream ***all)
{
	size_t n = 0;

	pthread_mutex_lock(&streams_lock);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct stream *s = streams[i]; s; s = s->s_next)
			n++;
	*all = calloc(n, sizeof **all);
	n = 0;
	for (size_t i = 0; *all && i < BUCKETS; i++)
		for (struct stream *s = streams[i]; s; s = s->s_next)
			if (!s->s_ends) {
				s->s_users++;
				(*all)[n++] = s;
			}
	pthread_mutex_unlock(&streams_lock);
	return n;
}

static int flush_one(struct stream *s, bool waits)
{
	int got = usync_mutex_lock(&s->s_mutex, waits ? USCHED_NEVER : 0), rc = 0;

	if (got == -EDEADLK)
		s->s_depth++;
	if (got == 0 || got == -EDEADLK) {
		rc = fflush(s->s_file);
		unlock(s);
	}
	pthread_mutex_lock(&streams_lock);
	s->s_users--;
	pthread_mutex_unlock(&streams_lock);
	return rc;
}

static int flush_all(bool waits)
{
	CLEANUP(uposix__free_it) struct stream **all = NULL;
	int before = ustack_shield(1), rc = 0;
	size_t n = use_all(&all);

	if (!all)
		rc = waits ? fflush(NULL) : 0;
	for (size_t i = 0; i < n; i++)
		rc |= flush_one(all[i], waits);
	if (before >= 0)
		ustack_shield(before);
	if (!waits)
		return rc;
	_IO_list_lock();
	for (void *at = _IO_iter_begin(); at != _IO_iter_end(); at = _IO_iter_next(at))
		if (_IO_iter_file(at)->_fileno != OURS)
			rc |= fflush(_IO_iter_file(at));
	_IO_list_unlock();
	return rc;
}

int uposix_fflush(FILE *file)
{
	CLEANUP(leave) struct stream *s = (uposix__pace(), file) ? lock(file) : NULL;

	(void)s;
	return file ? fflush(file) : flush_all(true);
}

__attribute__((destructor)) static void end_streams(void)
{
	flush_all(false);
}

int uposix_fcloseall(void)
{
	int rc = flush_all(true);

	return fcloseall() | rc;
}

/* dprintf(), which writes inside of libc. */

int uposix_vdprintf(int fd, const char *format, va_list list)
{
	CLEANUP(uposix__free_it) char *text = NULL;
	int n;

	if (!uposix__known(fd))
		return uposix__pace(), vdprintf(fd, format, list);
	n = vasprintf(&text, format, list);
	return n > 0 && uposix_write(fd, text, (size_t)n) < 0 ? -1 : n;
}

WITH_LIST(dprintf, (int fd, const char *format, ...), format,
	  uposix_vdprintf(fd, format, list))

/* The variants that _FORTIFY_SOURCE calls. */

char *uposix___fgets_chk(char *text, size_t room, int size, FILE *file)
{
	return size > 0 && (size_t)size > room ? (abort(), NULL)
		: uposix_fgets(text, size, file);
}

size_t uposix___fread_chk(void *to, size_t room, size_t size, size_t n, FILE *file)
{
	return size && n > room / size ? (abort(), 0ul) : uposix_fread(to, size, n, file);
}

wchar_t *uposix___fgetws_chk(wchar_t *text, size_t room, int size, FILE *file)
{
	return size > 0 && (size_t)size > room ? (abort(), NULL)
		: uposix_fgetws(text, size, file);
}

int uposix___vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
	(void)flag;
	return uposix_vdprintf(fd, format, list);
}

WITH_LIST(__dprintf_chk, (int fd, int flag, const char *format, ...), format,
	  uposix___vdprintf_chk(fd, flag, format, list))
