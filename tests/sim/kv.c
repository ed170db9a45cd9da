/* SPDX-License-Identifier: MIT */
/*
 * examples/06-kv: clients read and change a few keys, with several commands at a time,
 * and the history of all is linearizable. A crash loses all keys.
 *
 * `sim_kv FAULTS CLIENTS SECONDS' lets each client send about one batch a second, for so
 * long, and prints the size of the process ten times.
 */
#include "server.h"

#include "../../sim/ulinear.h"

enum { PORT = 7000, BATCHES = 20, AT_ONCE = 3, KEYS = 3,
       SEARCH = 64 << 20 };

enum { ERASE = 100 };                   /* a kind of operation: with any result */

static struct ulinear *history;
static uint64_t keys = KEYS;
static int64_t last_value, end;

static int apply(void *state, size_t *size, const void *operation, const void *result)
{
	struct ulinear_operation o = *(const struct ulinear_operation *)operation;

	if ((int)o.o_kind == ERASE) {
		o.o_kind = ULINEAR_DELETE;
		result = NULL;
	}
	return ulinear_map.m_apply(state, size, &o, result);
}

static void show(FILE *report, const void *operation, const void *result)
{
	const struct ulinear_operation *o = operation;

	if ((int)o->o_kind == ERASE)
		fprintf(report, "crash");
	else
		ulinear_map.m_show(report, operation, result);
}

static void fail(void)
{
	ulinear_check(history, stderr);
	sim_fail("the history is not linearizable");
}

/* The server begins without keys. */
static void begin(void)
{
	struct ulinear_result none = { 0 };

	for (uint64_t key = 0; key < keys; key++) {
		struct ulinear_operation o;
		int64_t id;

		memset(&o, 0, sizeof o);
		o.o_kind = (enum ulinear_kind)ERASE;
		o.o_key = key;
		id = ulinear_call(history, 1000, &o);
		if (ulinear_return(history, id, &none))
			fail();
	}
}

static void finish(void)
{
	int rc = ulinear_check(history, stderr);

	if (rc == -EILSEQ)
		sim_fail("the history is not linearizable");
	if (rc)
		sim_fail("the search gave up: %s", strerror(-rc));
	ulinear_destroy(history);
}

/* Writes a command at the end of the text. */
static void add_command(char *text, const struct ulinear_operation *o)
{
	static const char *const names[] = {
		[ULINEAR_GET] = "GET", [ULINEAR_SET] = "SET", [ULINEAR_ADD] = "INCRBY",
		[ULINEAR_DELETE] = "DEL",
	};
	bool valued = o->o_kind == ULINEAR_SET || o->o_kind == ULINEAR_ADD;
	char value[32];
	int size = snprintf(value, sizeof value, "%lld", (long long)o->o_value);

	text += strlen(text);
	text += sprintf(text, "*%d\r\n$%zu\r\n%s\r\n$3\r\nk%02d\r\n", valued ? 3 : 2,
			strlen(names[o->o_kind]), names[o->o_kind], (int)o->o_key);
	if (valued)
		sprintf(text, "$%d\r\n%s\r\n", size, value);
}

/* 0, or an error. */
static int read_reply(struct ubuf_in *in, struct ulinear_result *r, int64_t deadline)
{
	ssize_t n;
	char *line;

	n = ubuf_line(in, &line, deadline);
	memset(r, 0, sizeof *r);
	if (n < 0)
		return (int)n;
	r->r_done = strcmp(line, "$-1") != 0;
	if (*line == '$' && r->r_done)
		n = ubuf_line(in, &line, deadline);
	else if (*line == ':')
		line++;
	else if (*line != '+' && r->r_done)
		sim_fail("a reply: %s", line);
	if (n < 0)
		return (int)n;
	r->r_value = strtoll(line, NULL, 10);
	return 0;
}

static struct ulinear_operation choose(void)
{
	static const enum ulinear_kind some[] = { ULINEAR_GET, ULINEAR_SET, ULINEAR_ADD,
						  ULINEAR_DELETE };
	struct ulinear_operation o;

	memset(&o, 0, sizeof o);
	o.o_kind = some[sim_choose(4)];
	o.o_key = sim_choose(keys);
	if (o.o_kind == ULINEAR_SET)
		o.o_value = ++last_value * 1000;
	if (o.o_kind == ULINEAR_ADD)
		o.o_value = 1;
	return o;
}

/* Sends some commands at once. 0: all were answered. */
static int talk(int fd, struct ubuf_in *in, uint32_t client)
{
	struct ulinear_operation o[AT_ONCE];
	struct ulinear_result result;
	int n = 1 + (int)sim_choose(AT_ONCE), rc;
	int64_t ids[AT_ONCE], deadline = usync_after(2 * SECOND);
	char text[AT_ONCE * 100] = "";

	for (int i = 0; i < n; i++) {
		o[i] = choose();
		add_command(text, &o[i]);
		ids[i] = ulinear_call(history, client, &o[i]);
	}
	rc = unet_write_all(fd, text, strlen(text), NULL, deadline);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = read_reply(in, &result, deadline);
		if (rc == 0 && o[i].o_kind == ULINEAR_DELETE)
			result.r_done = result.r_value;
		if ((rc ? ulinear_lost(history, ids[i])
			: ulinear_return(history, ids[i], &result)) == -EILSEQ)
			fail();
	}
	if (rc)
		lose(rc);
	return rc;
}

static void ask(void *number)
{
	struct ubuf_in in;
	int fd = -1;

	for (int i = 0; end ? usync_after(0) < end : i < BATCHES; i++) {
		if (fd < 0) {
			fd = reach(PORT);
			ubuf_in_init(&in, fd, 1000);
		}
		if (talk(fd, &in, (uint32_t)(intptr_t)number) || sim_choose(10) == 0) {
			ubuf_in_free(&in);
			unet_close(fd);
			fd = -1;
		}
		if (end)
			usync_sleep_until(usync_after(SECOND));
		else
			pause_sometimes();
	}
	if (fd >= 0) {
		ubuf_in_free(&in);
		unet_close(fd);
	}
}

static void *tell_size(void *unused)
{
	int64_t begin = usync_after(0);
	char text[64];
	FILE *f;

	for (int i = 1; i <= 10; i++) {
		usync_sleep_until(begin + (end - begin) / 10 * i);
		f = fopen("/proc/self/statm", "r");
		if (f && fgets(text, sizeof text, f))
			fprintf(stderr, "%lld s: %ld KiB\n",
				(long long)((usync_after(0) - begin) / SECOND),
				strtol(strchr(text, ' '), NULL, 10) * 4);
		if (f)
			fclose(f);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int clients = argc > 2 ? atoi(argv[2]) : 5;
	static struct ulinear_model model;
	static char *arguments[] = { "kv", "7000", NULL };

	model = ulinear_map;
	model.m_apply = apply;
	model.m_show = show;
	CHECK(ulinear_create(&history, &model, SEARCH) == 0);
	prepare(argc > 1 ? argv[1] : NULL);
	server.s_argv = arguments;
	server.s_begins = begin;
	server.s_finish = finish;
	if (argc > 3) {
		keys = (uint64_t)clients;
		end = usync_after(atoi(argv[3]) * SECOND);
		pthread_detach(started(tell_size, NULL));
	}
	run_server(clients, PORT, ask);
	return 0;
}
