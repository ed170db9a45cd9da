/* SPDX-License-Identifier: MIT */
/*
 * text.h: makes the texts of reports, dumps and metrics. Private. The functions may be
 * called by signal handlers, since, unlike printf(), they never allocate or lock.
 *
 * A text with a descriptor is written to the descriptor whenever the buffer is full, and
 * by text_flush(). A text without a descriptor is cut off when the buffer is full.
 */
#ifndef USCHED_TEXT_H
#define USCHED_TEXT_H

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct text {
	char  *t_bytes;
	size_t t_room;          /* bytes of the buffer */
	int    t_fd;            /* -1: no descriptor */
	int    t_wait;          /* ms to wait if the descriptor is full and does not
				   block; -1: without a limit */
	int    t_rc;            /* 0, or the error of write(2) */
	size_t t_used;          /* bytes of the text in the buffer */
};

/* Initializes a text with the array `bytes' as the buffer. */
#define TEXT(bytes, fd) { bytes, sizeof bytes, fd, 0, 0, 0 }

/* For functions that are not inlined: there are hundreds of calls, and no call has to be
   fast. */
#define TEXT_CALL static __attribute__((noinline, unused))

/* Writes what is in the buffer. After an error nothing more is written. */
TEXT_CALL void text_flush(struct text *t)
{
	size_t done = 0;

	while (t->t_rc == 0 && done < t->t_used) {
		ssize_t n = write(t->t_fd, t->t_bytes + done, t->t_used - done);
		struct pollfd room = { .fd = t->t_fd, .events = POLLOUT };

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR
			 && (errno != EAGAIN || poll(&room, 1, t->t_wait) == 0))
			t->t_rc = -errno;
	}
	t->t_used = 0;
}

TEXT_CALL void text_bytes(struct text *t, const void *bytes, size_t n)
{
	const char *at = (const char *)bytes;

	while (n > 0) {
		size_t part = t->t_room - t->t_used;

		if (part > n)
			part = n;
		memcpy(t->t_bytes + t->t_used, at, part);
		t->t_used += part;
		at += part;
		n -= part;
		if (n > 0 && t->t_fd < 0)
			return;
		if (n > 0)
			text_flush(t);
	}
}

TEXT_CALL void text_put(struct text *t, const char *string)
{
	text_bytes(t, string, strlen(string));
}

/* Adds a number, with at least `least' digits. */
TEXT_CALL void text_digits(struct text *t, uint64_t value, unsigned base, int least)
{
	char digits[24], *end = digits + sizeof digits, *at = end;

	do
		*--at = "0123456789abcdef"[value % base];
	while ((value /= base) > 0 || end - at < least);
	text_bytes(t, at, (size_t)(end - at));
}

static inline void text_number(struct text *t, uint64_t value)
{
	text_digits(t, value, 10, 1);
}

static inline void text_hex(struct text *t, uint64_t value)
{
	text_put(t, "0x");
	text_digits(t, value, 16, 1);
}

/*
 * Returns how many bytes the first character of a string has. Returns 0 if the bytes are
 * no UTF-8. Also returns 0 for control characters, because a text from outside could use
 * them to move the cursor of a terminal, or to forge a line of a log.
 */
TEXT_CALL size_t text_character(const unsigned char *s)
{
	static const uint32_t least[] = { 0, ' ', 0xa0, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : *s < 0xc0 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *s : *s & 0xffu >> n;

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < least[n] || c == 0x7f || c >> 11 == 0xd800 >> 11 || c > 0x10ffff)
		return 0;
	return n;
}

/*
 * Copies the characters of a string that fit as a whole. If text_character() returns 0 at
 * a byte, copies a '?' instead of the byte. `to' and `from' may be the same.
 */
TEXT_CALL void text_copy(char *to, size_t room, const char *from)
{
	for (size_t n, all; *from; from += all, to += all, room -= all) {
		n = text_character((const unsigned char *)from);
		all = n ? n : 1;
		if (all >= room)
			break;
		memmove(to, n ? from : "?", all);
	}
	*to = '\0';
}

/* Adds a text as printf() does, which may have %s, %u, %zu, and %p with an address. */
TEXT_CALL __attribute__((format(printf, 2, 3)))
void text_add(struct text *t, const char *format, ...)
{
	const char *at;
	va_list args;

	va_start(args, format);
	for (; (at = strchr(format, '%')); format = at + 1) {
		text_bytes(t, format, (size_t)(at++ - format));
		if (*at == 's')
			text_put(t, va_arg(args, const char *));
		else if (*at == 'p')
			text_hex(t, (uintptr_t)va_arg(args, const void *));
		else if (*at == 'u')
			text_number(t, va_arg(args, unsigned));
		else if (*at++ == 'z')
			text_number(t, va_arg(args, size_t));
	}
	va_end(args);
	text_put(t, format);
}

/* Adds the address of a thread, and its name unless that is empty. */
static inline void text_thread(struct text *t, const void *thread, const char *name)
{
	text_add(t, "thread %p", thread);
	if (*name)
		text_add(t, " \"%s\"", name);
}

/* Adds `ns' as a number of seconds, with `places' (1 to 9) digits after the point. */
static inline void text_seconds(struct text *t, uint64_t ns, int places)
{
	uint64_t rest = ns % 1000000000;

	for (int i = places; i < 9; i++)
		rest /= 10;
	text_number(t, ns / 1000000000);
	text_put(t, ".");
	text_digits(t, rest, 10, places);
}

#endif /* USCHED_TEXT_H */
