/* SPDX-License-Identifier: MIT */
/*
 * examples/09-chat: members of two rooms talk. Each gets the lines of its room, those of
 * one sender in their order, each once, and no line is missing among them while it stays.
 */
#include "server.h"

enum { PORT = 7100, TURNS = 12, AT_ONCE = 5, LINES = 300, VISITS = 2000, ROOMS = 2 };

/* A connection of a client. Its number is its name. */
struct visit {
	int            v_fd;
	struct ubuf_in v_in;
	int            v_number;
	int            v_room;
	int            v_said;                  /* lines that it has sent */
	int            v_next[VISITS];          /* of each one, the next line; 0: any */
};

static int last_number;
static int heard[VISITS];                       /* of each one's lines, by itself */

/* Reads a line. 0, or an error. */
static int hear(struct visit *v, int64_t deadline)
{
	int name, number, seq, room;
	char *line;
	ssize_t n = ubuf_line(&v->v_in, &line, deadline);

	if (n < 0)
		return (int)n;
	if (*line == '*' || *line == '=')
		return 0;
	if (sscanf(line, "c%d: %d %d r%d", &name, &number, &seq, &room) != 4)
		sim_fail("no line of a member: %s", line);
	if (name != number || room != v->v_room || number >= VISITS)
		sim_fail("it came to r%d: %s", v->v_room, line);
	if (seq != v->v_next[number]
	    && (v->v_next[number] > 0 || number == v->v_number))
		sim_fail("not line %d: %s", v->v_next[number], line);
	v->v_next[number] = seq + 1;
	if (number == v->v_number)
		heard[number] = seq + 1;
	return 0;
}

/* What senders have heard themselves comes without a word of this one. */
static int listen_to_all(struct visit *v, int64_t deadline)
{
	int rc = 0;

	for (int i = 1; rc == 0 && i <= last_number; i++)
		for (int end = heard[i]; rc == 0 && v->v_next[i] && v->v_next[i] < end; )
			rc = hear(v, deadline);
	return rc;
}

/* Says some lines, and waits until all were heard. 0, or an error. */
static int talk(struct visit *v)
{
	int n = 1 + (int)sim_choose(AT_ONCE), rc;
	char *text = malloc((size_t)n * LINES * 2), *end = text;
	int64_t deadline = usync_after(10 * SECOND);

	for (int i = 0; i < n; i++)
		end += sprintf(end, "%d %d r%d %0*d\n", v->v_number, v->v_said++,
			       v->v_room, 1 + (int)sim_choose(LINES), 0);
	rc = unet_write_all(v->v_fd, text, (size_t)(end - text), NULL, deadline);
	free(text);
	while (rc == 0 && v->v_next[v->v_number] < v->v_said)
		rc = hear(v, deadline);
	pause_sometimes();                      /* others may fill the room */
	if (rc == 0)
		rc = listen_to_all(v, usync_after(10 * SECOND));
	if (rc)
		lose(rc);
	return rc;
}

static struct visit *enter(void)
{
	struct visit *v = calloc(1, sizeof *v);
	char text[64];

	v->v_fd = reach(PORT);
	v->v_number = ++last_number;
	v->v_room = (int)sim_choose(ROOMS);
	CHECK(v->v_number < VISITS);
	ubuf_in_init(&v->v_in, v->v_fd, 1000);
	snprintf(text, sizeof text, "/name c%d\n/join r%d\n", v->v_number, v->v_room);
	unet_write_all(v->v_fd, text, strlen(text), NULL, usync_after(10 * SECOND));
	return v;
}

static void leave(struct visit *v)
{
	if (sim_choose(2))
		unet_write(v->v_fd, "/quit\n", 6, 0);
	ubuf_in_free(&v->v_in);
	unet_close(v->v_fd);
	free(v);
}

static void visit(void *unused)
{
	struct visit *v = NULL;

	(void)unused;
	for (int i = 0; i < TURNS; i++) {
		v = v ? v : enter();
		if (talk(v) || sim_choose(10) == 0) {
			leave(v);
			v = NULL;
		}
		pause_sometimes();
	}
	if (v)
		leave(v);
}

int main(int argc, char **argv)
{
	static char *arguments[] = { "chat", "7100", NULL };

	prepare(argc > 1 ? argv[1] : NULL);
	server.s_argv = arguments;
	run_server(6, PORT, visit);
	return 0;
}
