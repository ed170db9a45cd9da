/* SPDX-License-Identifier: MIT */
/*
 * http.h: HTTP for the servers in C. http_parser parses requests piece by piece as they
 * are read, so no connection needs a buffer. Answers are composed in advance. One
 * writev() of http_answers sends all answers to one read. They are valid until the next
 * http_read().
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <sys/stat.h>

#include <http_parser.h>

#include "server.h"

#define HTTP_PATH "/1k"

enum {
	HTTP_MOST_ANSWERS = 1024,       /* IOV_MAX; BUFFER_SIZE / the shortest request */
	HTTP_CLOSES       = 1,          /* or'ed to the index of an answer */
	HTTP_FOUND        = 0,
	HTTP_NOT_FOUND    = 2,
	HTTP_NOT_ALLOWED  = 4,
	HTTP_BAD          = 6,
	HTTP_KINDS        = 8,
};

struct http {                           /* of a connection */
	http_parser parser;
	unsigned char matched;          /* bytes of HTTP_PATH; more: another path */
	bool ended;                     /* to close after the answers */
};

struct http_answer {
	char *text, *date;              /* date: in text */
	size_t length;
};

static struct http_answer http_composed[HTTP_KINDS];
static time_t http_time;                /* of the dates in the answers */
static struct iovec http_answers[HTTP_MOST_ANSWERS];
static int http_count;

/* 29 characters and a null. */
static void http_format_date(char *date, time_t when)
{
	struct tm tm;

	if (!gmtime_r(&when, &tm)
	    || !strftime(date, 30, "%a, %d %b %Y %H:%M:%S GMT", &tm))
		fail("the clock is wrong");
}

static void http_update_dates(void)
{
	time_t seconds = time(NULL);
	char date[30];

	if (seconds == http_time)
		return;
	http_time = seconds;
	http_format_date(date, seconds);
	for (int i = 0; i < HTTP_KINDS; i++)
		memcpy(http_composed[i].date, date, sizeof date - 1);
}

/* Composes both answers of a kind; `fields' are specific to it. */
static void http_compose(int kind, const char *status, const char *fields,
                         const char *body, size_t length)
{
	for (int closes = 0; closes <= HTTP_CLOSES; closes++) {
		struct http_answer *answer = &http_composed[kind | closes];
		int head;

		answer->text = malloc(1024 + length);
		if (!answer->text)
			fail("not enough memory");
		head = snprintf(answer->text, 1024, "HTTP/1.1 %s\r\nServer: peer/1.0\r\n"
		                "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
		                "Content-Type: application/octet-stream\r\n"
		                "Content-Length: %zu\r\n%sConnection: %s\r\n\r\n", status,
		                length, fields, closes ? "close" : "keep-alive");
		memcpy(answer->text + head, body, length);
		answer->length = (size_t)head + length;
		answer->date = strstr(answer->text, "Date: ") + strlen("Date: ");
	}
}

/* Composes the answers. The file is DIR followed by HTTP_PATH. */
static void http_prepare(const char *dir)
{
	char name[4096], fields[128], date[30], *body;
	struct stat status;
	FILE *file;

	if (snprintf(name, sizeof name, "%s" HTTP_PATH, dir) >= (int)sizeof name)
		fail("the name of the directory is too long");
	file = fopen(name, "r");
	if (!file || fstat(fileno(file), &status))
		fail_errno(name);
	body = malloc((size_t)status.st_size + 1);
	if (!body || fread(body, 1, (size_t)status.st_size + 1, file)
	             != (size_t)status.st_size)
		fail("cannot read the file");
	fclose(file);
	http_format_date(date, status.st_mtime);
	snprintf(fields, sizeof fields, "Last-Modified: %s\r\nETag: \"%jx-%jx\"\r\n",
	         date, (uintmax_t)status.st_mtime, (uintmax_t)status.st_size);
	http_compose(HTTP_FOUND, "200 OK", fields, body, (size_t)status.st_size);
	http_compose(HTTP_NOT_FOUND, "404 Not Found", "", "", 0);
	http_compose(HTTP_NOT_ALLOWED, "405 Method Not Allowed", "Allow: GET\r\n", "", 0);
	http_compose(HTTP_BAD, "400 Bad Request", "", "", 0);
	free(body);
}

/* False: there are too many. */
static bool http_add(struct http *http, int kind)
{
	int closes = http->ended ? HTTP_CLOSES : 0;
	struct http_answer *answer = &http_composed[kind | closes];

	if (http_count == HTTP_MOST_ANSWERS)
		return false;
	http_answers[http_count++] = (struct iovec){ answer->text, answer->length };
	return true;
}

static int http_on_begin(http_parser *parser)
{
	((struct http *)parser->data)->matched = 0;
	return 0;
}

static int http_on_path(http_parser *parser, const char *at, size_t length)
{
	struct http *http = parser->data;
	const size_t path = strlen(HTTP_PATH);

	if (http->matched + length > path
	    || memcmp(&HTTP_PATH[http->matched], at, length))
		http->matched = UINT8_MAX;
	else
		http->matched = (unsigned char)(http->matched + length);
	return 0;
}

static int http_on_headers(http_parser *parser)
{
	parser->upgrade = 0;            /* an upgrade request is ignored */
	return 0;
}

static int http_on_request(http_parser *parser)
{
	struct http *http = parser->data;
	int kind = http->matched == strlen(HTTP_PATH) ? HTTP_FOUND : HTTP_NOT_FOUND;

	if (parser->method != HTTP_GET)
		kind = HTTP_NOT_ALLOWED;
	http->ended = !http_should_keep_alive(parser);
	return http_add(http, kind) ? 0 : -1;
}

static const http_parser_settings http_settings = {
	.on_message_begin    = http_on_begin,
	.on_url              = http_on_path,
	.on_headers_complete = http_on_headers,
	.on_message_complete = http_on_request,
};

static void http_open(struct http *http)
{
	http_parser_init(&http->parser, HTTP_REQUEST);
	http->parser.data = http;
	http->ended = false;
}

/* Parses the bytes, and leaves the answers to them in http_answers. */
static void http_read(struct http *http, const char *data, size_t length)
{
	size_t parsed;

	http_count = 0;
	http_update_dates();
	parsed = http_parser_execute(&http->parser, &http_settings, data, length);
	if (parsed != length && !http->ended) {
		http->ended = true;
		http_add(http, HTTP_BAD);
	}
}

#endif
