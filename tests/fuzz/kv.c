/* SPDX-License-Identifier: MIT */
/*
 * kv.c: a fuzz target for examples/06-kv.c: the commands are the input. What comes back
 * are complete replies, hiredis finds, what clients have left behind are keys, and work
 * is bounded: work.c.
 */
#define _GNU_SOURCE             /* for the example */
#include <hiredis/hiredis.h>
#include <string.h>

#include "fuzz.h"

int kv_main(int argc, char **argv);

/* What the reader has taken is work, and where it has looked for the end of a line. */
static int get_reply(redisReader *r, void **reply)
{
	size_t left = r->len - r->pos, after;
	int rc = redisReaderGetReply(r, reply);
	const char *end;

	after = r->len - r->pos;
	end = after ? memchr(r->buf + r->pos, '\r', after) : NULL;
	fuzz_charge((left - after) / 16
		    + (end ? (size_t)(end - r->buf) - r->pos : after));
	return rc;
}

#define main kv_main
#define redisReaderGetReply get_reply
#include "../../examples/06-kv.c"
#undef main
#undef redisReaderGetReply

#include "peers.h"

static void check_replies(struct peer *p)
{
	static const char word[] = "connected_clients:";
	redisReader *r = redisReaderCreate();
	char *found = p->got;
	void *reply;

	/* INFO: whether the other client has ended depends on when it runs. */
	while ((found = memmem(found, p->size - (size_t)(found - p->got), word,
			       sizeof word - 1)) != NULL)
		(found += sizeof word - 1)[0] = 'n';
	redisReaderFeed(r, p->got, p->size);
	while (r->pos < r->len) {
		CHECK(redisReaderGetReply(r, &reply) == REDIS_OK && reply);
		freeReplyObject(reply);
	}
	redisReaderFree(r);
}

static void reset(void)
{
	CHECK(TAILQ_EMPTY(&conns) && TAILQ_EMPTY(&waiting));
	CHECK(clients.g_count == 0 && blocked.g_count == 0);
	while (table)
		drop(table);
	if (spare)
		redisReaderFree(spare);
	spare = NULL;
	steps = 0;
	last_id = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return feed(serve, reset, check_replies, data, size);
}
