/* SPDX-License-Identifier: MIT */
/*
 * 05-httpd.h: what 05-httpd.c reads in the head of a request, beyond what http_parser
 * does: fields, ranges, paths, and what RFC 9112 has a server refuse.
 */
#ifndef HTTPD_H
#define HTTPD_H

#include <ctype.h>
#include <http_parser.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define DATE "%a, %d %b %Y %H:%M:%S GMT"

enum { TEXT_MAX = 2048 };               /* bytes of a path, and of a field */

/* Copies up to one of `ends'. A text that is too long becomes an empty one. */
static void copy(char *to, const char *from, const char *ends)
{
	size_t size = strcspn(from, ends);

	if (size >= TEXT_MAX)
		size = 0;
	memcpy(to, from, size);
	to[size] = '\0';
}

/* Copies the value of the first field `name', or an empty text. */
static char *field(const char *request, const char *name, char *value)
{
	size_t size = strlen(name);

	do {
		request = strchr(request, '\n');
		request = request ? request + 1 : "";   /* other ends exist */
	} while (*request > '\r' && strncasecmp(request, name, size) != 0);
	if (*request > '\r')
		request += size + strspn(request + size, " \t");
	copy(value, request, "\r\n");
	for (size = strlen(value); size > 0 && strchr(" \t", value[size - 1]); size--)
		value[size - 1] = '\0';
	return value;
}

/* Whether a list has the tag. A strong comparison takes no weak one. */
static bool has_tag(const char *list, const char *tag, bool strong)
{
	const char *at = list;

	while ((at = strstr(at, tag)) && strong && at - list >= 2
	       && memcmp(at - 2, "W/", 2) == 0)
		at++;
	return at || strcmp(list, "*") == 0;
}

/* A date in one of the three forms of RFC 9110, 5.6.7. */
static bool parse_date(const char *text, time_t *date)
{
	static const char *const forms[] = {
		DATE, "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y" };

	for (int i = 0; i < 3; i++) {
		struct tm tm = { 0 };
		const char *end = strptime(text, forms[i], &tm);

		*date = timegm(&tm);
		if (end && !*end)
			return true;
	}
	return false;
}

/* The first range of a file, of several. False: what is malformed is to be ignored. */
static bool parse_range(const char *text, long long size, long long *from, long long *to)
{
	const char *digits = "0123456789";
	long long low, high;
	size_t first, last;

	if (strncasecmp(text, "bytes=", 6) != 0)
		return false;
	text += 6;
	first = strspn(text, digits);
	last = text[first] == '-' ? strspn(text + first + 1, digits) : 0;
	if (text[first] != '-' || first + last == 0
	    || !strchr(", \t", text[first + 1 + last]))
		return false;
	low = first ? strtoll(text, NULL, 10) : 0;      /* LLONG_MAX: too large */
	high = last ? strtoll(text + first + 1, NULL, 10) : size - 1;
	if (first && last && high < low)
		return false;
	*from = first ? low : high < size ? size - high : 0;    /* the last bytes */
	*to = first && high < size ? high : size - 1;
	return true;
}

/* False: the URL has no valid path. */
static bool decode(const char *url, char *path)
{
	for (int n; *url; url += n) {
		unsigned c = (unsigned char)*url;

		n = 1;
		if ((c == '%' && sscanf(url, "%%%2x%n", &c, &n) != 1) || c == 0)
			return false;
		*path++ = (char)c;
	}
	strcpy(path, path[-1] == '/' ? "index.html" : "");
	return true;
}

/* Behind a line and its CRLF; NULL: it has another end. */
static const char *end_line(const char *line)
{
	line += strcspn(line, "\r\n");
	return strncmp(line, "\r\n", 2) == 0 ? line + 2 : NULL;
}

/* Behind the first line of a chunk, with its size; NULL: it is malformed. */
static const char *chunk_line(const char *line, unsigned long long *size)
{
	size_t digits = strspn(line, "0123456789abcdefABCDEF"), blanks;

	if (digits == 0 || digits > 15)
		return NULL;
	*size = strtoull(line, NULL, 16);
	line += digits;
	blanks = strspn(line, " \t");
	return *line == '\r' || line[blanks] == ';' ? end_line(line) : NULL;
}

/*
 * Whether a body is chunks as in RFC 9112, 7.1, up to `end'. The parser found its end,
 * but takes any two bytes after data, a bare LF, and anything after the size.
 */
static bool are_chunks(const char *at, const char *end)
{
	unsigned long long size = 1;

	while (at && size > 0) {
		at = chunk_line(at, &size);
		if (at && size > 0) {
			if (size + 2 > (size_t)(end - at)
			    || memcmp(at + size, "\r\n", 2) != 0)
				return false;
			at += size + 2;
		}
	}
	while (at && *at != '\r') {             /* fields behind them */
		size_t name = strcspn(at, ": \t\r\n");

		at = name > 0 && at[name] == ':' ? end_line(at) : NULL;
	}
	return at && at + 2 == end && at[1] == '\n';
}

/* Whether a line's value is a host, which may be empty, and perhaps a port. */
static bool is_host(const char *value)
{
	static const char alone[] = "-._~%!$&'()*+,;=0123456789";
	size_t n = 0;

	value += strspn(value, " \t");
	if (*value == '[') {
		n = 1 + strspn(value + 1, "0123456789abcdefABCDEF:.");
		if (value[n++] != ']')
			return false;
	} else {
		while (value[n] && (isalpha((unsigned char)value[n])
				    || strchr(alone, value[n])))
			n++;
	}
	if (value[n] == ':')
		n += 1 + strspn(value + n + 1, "0123456789");
	return value[n + strspn(value + n, " \t")] == '\r';
}

/*
 * 0, or a status: the parser takes more than RFC 9112 permits, and what a proxy may take
 * in another way.
 */
static int refuse(const http_parser *p, const char *line, const char *end)
{
	int hosts = 0, codings = 0, status = p->http_major > 1 ? 505 : 0;

	for (size_t size, name, first = 1; !status; line += size + 2, first = 0) {
		size = strcspn(line, "\r\n");
		name = strcspn(line, ": \t");
		if (strncmp(line + size, "\r\n", 2) != 0)
			return 400;             /* a bare LF, or a NUL */
		if (size == 0)
			break;
		if (!first && (name == 0 || line[name] != ':'))
			return 400;             /* a space before the colon, or a fold */
		if (name == 4 && strncasecmp(line, "Host", name) == 0)
			hosts += is_host(line + name + 1) ? 1 : 2;
		if (name == 17 && strncasecmp(line, "Transfer-Encoding", name) == 0) {
			const char *value = line + name + 1;

			value += strspn(value, " \t");
			if (strncasecmp(value, "chunked", 7) != 0
			    || value[7 + strspn(value + 7, " \t")] != '\r')
				status = 501;
			codings++;
		}
	}
	if (!status && (p->http_major == 0 || hosts > 1 || codings > 1
			|| (p->http_minor == 0 ? codings : hosts == 0)
			|| (codings && !are_chunks(line + 2, end))))
		return 400;
	return status;
}

/* Copies the path of the URL, which may have a scheme and a host. 0, or a status. */
static int copy_path(char *to, const char *request)
{
	const char *url = strchr(request, ' ') + 1;
	struct http_parser_url parts;
	size_t size = strcspn(url, " \r\n");

	http_parser_url_init(&parts);
	*to = '\0';
	if (size >= TEXT_MAX)
		return 414;
	if (*url == '*' || http_parser_parse_url(url, size, 0, &parts))
		return 400;
	if (parts.field_set & 1 << UF_PATH)
		copy(to, url + parts.field_data[UF_PATH].off, " ?#\r\n");
	else if (parts.field_set & 1 << UF_SCHEMA)
		strcpy(to, "/");
	return 0;
}

/* The status for a request that the parser does not take, and which it left at `at'. */
static int status_of(enum http_errno e, const char *text, const char *at)
{
	text += strspn(text, "\r\n");
	if (e == HPE_HEADER_OVERFLOW && text < at)
		return memchr(text, '\n', (size_t)(at - text)) ? 431 : 414;
	while (isalpha((unsigned char)*text))
		text++;
	return e == HPE_INVALID_METHOD && *text == ' ' ? 501 : 400;
}

#endif /* HTTPD_H */
