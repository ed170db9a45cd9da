/* SPDX-License-Identifier: MIT */
/*
 * kv.c: a fuzz target for examples/06-kv.c: the commands are the input. What comes back
 * are complete replies, hiredis finds, and what clients have left behind are keys.
 */
int kv_main(int argc, char **argv);

#define main kv_main
#include "../../examples/06-kv.c"
#undef main

#include "peers.h"

static void check_replies(struct peer *p)
{
	redisReader *r = redisReaderCreate();
	void *reply;

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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return feed(serve, reset, check_replies, data, size);
}
