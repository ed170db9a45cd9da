/* SPDX-License-Identifier: MIT */
/*
 * proxy.c: a fuzz target for examples/07-proxy.c: clients on one side, backend.h on the
 * other. What a client gets does not depend on how its bytes come together, an echo is
 * whole, nothing is left behind, and work is bounded: work.c.
 */
int proxy_main(int argc, char **argv);

#define main proxy_main
#include "../../examples/07-proxy.c"
#undef main
#undef PAUSE

#include "peers.h"
#include "backend.h"

static const uint8_t *input;
static size_t         input_size;

static void relay(int fd, void *unused)
{
	(void)unused;
	server[0] = backend;
	servers = 1;
	CHECK(usync_sem_wait(&room, USCHED_NEVER) == 0);
	CHECK(rr_start(rr, be_backend, NULL, NULL) == 0);
	start(fd);
}

static void check_relayed(struct peer *p)
{
	CHECK(!connections && open_connections.g_count == 0);
	CHECK(room.sm_count == CONNECTIONS);
	if (how != ECHO || p != peers || !is_plain(input, input_size))
		return;
	CHECK(p->size == input_size && memcmp(p->got, input, input_size) == 0);
}

static void reset(void)
{
	open_backend(input - 1, input_size + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data + 1;
	input_size = size - 1;
	return feed(relay, reset, check_relayed, data, size);
}
