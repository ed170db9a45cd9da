// SPDX-License-Identifier: MIT
//
// The ring and memory workloads with Photon, in one native thread and without an event
// engine. Each thread waits at a condition, in ring its own: a semaphore takes as long.
// The library puts every thread that waits into its heap of sleepers, with or without a
// time limit, and keeps the thread's record in its stack.
#include "peer.h"

#include <photon/thread/thread.h>

// Bytes; the least that Photon takes. Only used pages are in memory.
static constexpr size_t threads = 503, stack_bytes = 16 << 10;

static struct {
	photon::condition_variable ready;
	size_t token;
} slot[threads];

static photon::condition_variable done, resume;
static size_t ended;                    // in ring the number of the thread that got 0

static void *relay(void *arg)
{
	const size_t i = (size_t)arg, right = (i + 1) % threads;

	for (;;) {
		slot[i].ready.wait_no_lock();
		if (slot[i].token == 0)
			break;
		slot[right].token = slot[i].token - 1;
		slot[right].ready.notify_one();
	}
	ended = i + 1;
	done.notify_one();
	return nullptr;
}

static void *wait_once(void *)
{
	resume.wait_no_lock();
	ended++;
	return nullptr;
}

static void start(photon::thread_entry body, size_t i)
{
	if (!photon::thread_create(body, (void *)i, stack_bytes))
		fail("not enough memory for so many threads");
}

[[maybe_unused]] static void ring(int argc, char **argv)
{
	size_t passes;

	arguments(argc, argv, "PASSES", &passes);
	for (size_t i = 0; i < threads; i++)
		start(relay, i);
	photon::thread_yield();         // each runs until it blocks
	slot[0].token = passes;
	const double begin = now();
	slot[0].ready.notify_one();
	done.wait_no_lock();
	const double seconds = now() - begin;
	if (ended != passes % threads + 1)
		fail("the answer is wrong");
	print_seconds(seconds, ended);
}

[[maybe_unused]] static void memory(int argc, char **argv)
{
	size_t count;

	arguments(argc, argv, "THREADS", &count);
	need_memory(count, 12288);
	const size_t before = resident();
	for (size_t i = 0; i < count; i++)
		start(wait_once, i);
	photon::thread_yield();         // each runs until it blocks
	const size_t after = resident();
	resume.notify_all();
	while (ended < count)
		photon::thread_yield();
	print_memory(before, after, ended);
}

int main(int argc, char **argv)
{
	if (photon::vcpu_init() < 0)
		fail("not enough memory");
	WORKLOAD(argc, argv);
	return 0;
}
