/* SPDX-License-Identifier: MIT */
/*
 * Two threads write to the same numbers, in an order that what they do besides makes: a
 * wake, a mutex, a semaphore, a channel, a join. These are not reported, on one processor
 * or two: there is no bug in this one.
 */
#include "../../usync.h"

#include "plant.h"

enum { NUMBERS = 5 };

static int number[NUMBERS];
static struct ustack *partner[2];
static struct usync_mutex mutex;
static struct usync_sem sem[2], begun;
static struct usync_chan *chan;
static struct uprocs *rr;

static __attribute__((noinline)) void touch(int n)
{
	number[n]++;
}

static void receive(void)
{
	char value;

	check(usync_chan_recv(chan, &value, USCHED_NEVER));
}

static void send(void)
{
	char value = 0;

	check(usync_chan_send(chan, &value, USCHED_NEVER));
}

/* Each has its turn, and gives it to the other. */
static void take_turns(int self)
{
	if (self == 0)
		check(ustack_wait());
	touch(0);
	check(ustack_wake(partner[!self]));
	if (self == 1)
		check(ustack_wait());

	check(usync_mutex_lock(&mutex, USCHED_NEVER));
	touch(1);
	block();
	touch(1);
	check(usync_mutex_unlock(&mutex));

	if (self == 0)
		check(usync_sem_wait(&sem[0], USCHED_NEVER));
	touch(2);
	check(usync_sem_post(&sem[!self]));
	if (self == 1)
		check(usync_sem_wait(&sem[1], USCHED_NEVER));

	if (self == 0)
		receive();
	touch(3);
	if (self == 1) {
		send();
		receive();
	} else {
		send();
	}
}

static void child(void *arg)
{
	(void)arg;
	block();
	touch(4);
	block();
}

static void touch_and_join(void)
{
	struct ustack *u;

	touch(4);
	check(rr_start(rr, child, NULL, &u));
	check(ustack_join(u, NULL, USCHED_NEVER));
	touch(4);
}

static void thread(void *arg)
{
	int self = *(const int *)arg;

	check(usync_sem_wait(&begun, USCHED_NEVER));
	for (int n = 0; n < ROUNDS; n++) {
		take_turns(self);
		if (self == 0)
			touch_and_join();
	}
}

static void run(const struct uprocs_conf *conf)
{
	static const int self[] = { 0, 1 };

	check(rr_create(conf, &rr));
	check(usync_chan_create(1, 0, &chan));
	for (int i = 0; i < 2; i++)
		check(rr_start(rr, thread, (void *)(uintptr_t)&self[i], &partner[i]));
	for (int i = 0; i < 2; i++)
		check(usync_sem_post(&begun));
	for (int i = 0; i < 2; i++)
		check(ustack_join(partner[i], NULL, USCHED_NEVER));
	check(uprocs_destroy(rr, USCHED_NEVER));
	usync_chan_destroy(chan);
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = configure(argc, argv);

	for (conf.c_processors = 1; conf.c_processors <= 2; conf.c_processors++)
		run(&conf);
	EXPECT(number[0] == 4 * ROUNDS && number[1] == 8 * ROUNDS);
	EXPECT(number[3] == 4 * ROUNDS && number[4] == 6 * ROUNDS);
	return 0;
}
