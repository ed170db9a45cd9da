/* SPDX-License-Identifier: MIT */
/* test_sync_select.c: select, alone, and in storms of senders and receivers. */
#include "../help/place.h"

#include <errno.h>
#include <string.h>

/* ---- Alone and in pairs ---- */

/* A select does not meet itself. With all cases ready, it takes each at times. */
static void select_alone(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t in = 1, out = 2, seen[4] = { 0 };
	struct usync_case same[] = {
		{ p->p_direct, USYNC_SEND, &in, 1, 0 },
		{ p->p_direct, USYNC_RECV, &out, 1, 0 },
		{ p->p_direct, USYNC_SEND, &in, 1, 0 },
		{ p->p_direct, USYNC_RECV, &out, 1, 0 },
	};
	struct usync_case ready[] = {
		{ p->p_empty, USYNC_SEND, &in, 1, 0 },
		{ p->p_full, USYNC_RECV, &out, 1, 0 },
		{ p->p_empty, USYNC_SEND, &in, 1, 0 },
		{ p->p_full, USYNC_RECV, &out, 1, 0 },
	};

	TEST_EQUAL(usync_select(same, 4, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_select(same, 4, usync_after(MILLISECOND)), -ETIMEDOUT);
	TEST_EQUAL(in * 10 + out, 12);
	TEST_EQUAL(usync_select(ready, 65537, 0), -EINVAL);
	TEST_EQUAL(usync_select(NULL, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_select(NULL, 0, usync_after(1000)), -ETIMEDOUT);
	for (int i = 0; i < 100000 && (i < 100 || !seen[0] || !seen[1] || !seen[2]
				       || !seen[3]); i++) {
		int rc = usync_select(ready, 4, 0);

		TEST_TRUE(rc >= 0 && rc < 4);
		TEST_EQUAL(ready[rc].cs_rc, 0);
		seen[rc]++;
		TEST_EQUAL(rc % 2 ? usync_chan_send(p->p_full, &out, 0)
			   : usync_chan_recv(p->p_empty, &out, 0), 0);
		out = FILL;
	}
	TEST_TRUE(seen[0] && seen[1] && seen[2] && seen[3]);
	w->w_count++;
}

/* Two that can meet in either way meet once. */
static void select_each_other(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t in = w->w_index, out = 99;
	struct usync_case cases[] = {
		{ p->p_direct, USYNC_SEND, &in, 1, 0 },
		{ p->p_direct, USYNC_RECV, &out, 1, 0 },
	};

	w->w_rc = usync_select(cases, 2, USCHED_NEVER);
	TEST_TRUE(w->w_rc == 0 || w->w_rc == 1);
	TEST_EQUAL(out, w->w_rc == 1 ? 1 - w->w_index : 99);
	TEST_EQUAL(cases[w->w_rc].cs_rc, 0);
}

static void selects(void *s)
{
	struct place *p = make_place(s);
	struct worker w[2];

	for (int native = 0; native < 2; native++) {
		start_worker(&w[0], s, native, 0, select_alone, p);
		end_worker(&w[0]);
		assert_int_equal(w[0].w_count, 1);
		check_place(p);
	}
	for (size_t i = 0; i < test_scale(200, 20); i++) {
		for (size_t k = 0; k < 2; k++)
			start_worker(&w[k], s, i % 4 == k + 1, k, select_each_other, p);
		for (size_t k = 0; k < 2; k++)
			end_worker(&w[k]);
		assert_int_equal(w[0].w_rc + w[1].w_rc, 1);
	}
	check_place(p);
	free_place(p);
}

TEST_CASE(test_select, each_scheduler, selects)

/* ---- Traffic ---- */

/*
 * Senders and receivers use several channels, alone and with select, with deadlines and
 * cancels. Each value that was sent is received once, and no other value ever.
 */
enum { CHANS = 3, IDS = 1 << 16 };

struct traffic {
	struct usync_chan *t_chans[CHANS];
	size_t             t_size;
	size_t             t_values;            /* for each sender */
	atomic_uint        t_next;
	atomic_uchar       t_sent[IDS];
	atomic_uchar       t_received[IDS];
	atomic_size_t      t_senders;
	struct worker      t_workers[STORMERS];
};

static uint32_t key_of(const struct traffic *t, uint32_t id)
{
	return t->t_size == 0 ? 0 : t->t_size == 1 ? id & 255 : id % IDS;
}

static int send_somewhere(struct traffic *t, struct worker *w, uint32_t id,
			  int64_t deadline)
{
	unsigned char value[2][LARGEST];
	uint32_t first = any(w, CHANS);
	struct usync_case cases[] = {
		{ t->t_chans[first], USYNC_SEND, value[0], 1, 0 },
		{ t->t_chans[(first + any(w, CHANS)) % CHANS], USYNC_SEND, value[1],
		  1, 0 },
	};
	int rc;

	write_value(value[0], t->t_size, id);
	write_value(value[1], t->t_size, id);
	if (any(w, 2))
		return usync_chan_send(t->t_chans[first], value[0], deadline);
	rc = usync_select(cases, 2, deadline);
	return rc < 0 ? rc : cases[rc].cs_rc;
}

static void send_traffic(struct worker *w)
{
	struct traffic *t = w->w_shared;

	for (size_t i = 0; i < t->t_values; i++) {
		uint32_t id = t->t_next++;
		int rc;

		do
			rc = send_somewhere(t, w, id, any_deadline(w));
		while (rc == -ETIMEDOUT);
		TEST_TRUE(rc == 0 || rc == -ECANCELED);
		if (rc == 0)
			t->t_sent[key_of(t, id)]++;
		else if (w->w_count++ > MOST_CANCELS)
			break;
	}
	if (--t->t_senders == 0)
		for (size_t i = 0; i < CHANS; i++)
			TEST_EQUAL(usync_chan_close(t->t_chans[i]), 0);
}

static int recv_somewhere(struct traffic *t, struct worker *w, struct usync_chan **open,
			  int64_t deadline)
{
	unsigned char value[CHANS][LARGEST];
	struct usync_case cases[CHANS];
	int rc;

	for (size_t i = 0; i < CHANS; i++)
		cases[i] = (struct usync_case){ open[i], USYNC_RECV, value[i], 1, 0 };
	rc = usync_select(cases, CHANS, deadline);
	if (rc < 0)
		return rc;
	TEST_TRUE(open[rc]);
	if (cases[rc].cs_rc == 0) {
		t->t_received[key_of(t, read_value(value[rc], t->t_size))]++;
		w->w_count++;
	} else {
		TEST_EQUAL(cases[rc].cs_rc, -EPIPE);
		open[rc] = NULL;
	}
	return 0;
}

/* A cancelled receiver ends. The first is shielded, so all is received. */
static void recv_traffic(struct worker *w)
{
	struct traffic *t = w->w_shared;
	struct usync_chan *open[CHANS];
	int rc = 0;

	ustack_shield(w->w_index == 0);
	memcpy(open, t->t_chans, sizeof open);
	while (rc != -ECANCELED && (open[0] || open[1] || open[2])) {
		rc = recv_somewhere(t, w, open, any_deadline(w));
		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
	}
	ustack_shield(0);
}

static void run_traffic(struct traffic *t, void *s, bool cancels)
{
	t->t_senders = STORMERS / 2;
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&t->t_workers[i], s, i >= STORM_THREADS, i,
			     i % 2 ? send_traffic : recv_traffic, t);
	if (cancels)
		cancel_some(t->t_workers, STORM_THREADS);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&t->t_workers[i]);
	for (size_t i = 0; i < IDS; i++)
		TEST_EQUAL(t->t_sent[i], t->t_received[i]);
}

static void traffic(void *s)
{
	static struct traffic t;

	for (size_t i = 0; i < SIZES * 2; i++) {
		memset(&t, 0, sizeof t);
		t.t_size = sizes[i / 2];
		t.t_values = test_scale(60, 3);
		for (size_t k = 0; k < CHANS; k++)
			TEST_EQUAL(usync_chan_create(t.t_size, k, &t.t_chans[k]), 0);
		run_traffic(&t, s, i % 2);
		assert_true(i % 2 || t.t_next == STORMERS / 2 * t.t_values);
		for (size_t k = 0; k < CHANS; k++)
			usync_chan_destroy(t.t_chans[k]);
	}
}

TEST_CASE(test_traffic, each_scheduler, traffic)

/* ---- Trade ---- */

/*
 * All send and receive in one select, on channels without capacity. There are as many
 * sends as receives.
 */
struct market {
	struct usync_chan *m_chans[CHANS];
	atomic_size_t      m_sent, m_received, m_sums[2];
	size_t             m_rounds;
	struct worker      m_workers[STORMERS];
};

static void trade(struct worker *w)
{
	struct market *m = w->w_shared;

	for (size_t i = 0; i < m->m_rounds; i++) {
		size_t in = w->w_index * 1000 + i, out[2];
		struct usync_case cases[] = {
			{ m->m_chans[any(w, CHANS)], USYNC_SEND, &in, 1, 0 },
			{ m->m_chans[any(w, CHANS)], USYNC_RECV, &out[0], 1, 0 },
			{ m->m_chans[any(w, CHANS)], USYNC_SEND, &in, 1, 0 },
			{ any(w, 2) ? m->m_chans[any(w, CHANS)] : NULL,
			  USYNC_RECV, &out[1], 1, 0 },
		};
		int rc = usync_select(cases, 1 + any(w, 4),
				      usync_after((int64_t)any(w, 100000)));

		if (rc < 0) {
			TEST_TRUE(rc == -ETIMEDOUT || rc == -ECANCELED);
			continue;
		}
		TEST_EQUAL(cases[rc].cs_rc, 0);
		*(rc % 2 ? &m->m_received : &m->m_sent) += 1;
		m->m_sums[rc % 2] += rc % 2 ? out[rc / 2] : in;
	}
}

static void trading(void *s)
{
	static struct market m;

	memset(&m, 0, sizeof m);
	m.m_rounds = test_scale(300, 10);
	for (size_t i = 0; i < CHANS; i++)
		assert_int_equal(usync_chan_create(sizeof(size_t), 0, &m.m_chans[i]), 0);
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&m.m_workers[i], s, i >= STORM_THREADS, i, trade, &m);
	ustack_cancel(m.m_workers[0].w_thread);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&m.m_workers[i]);
	assert_int_equal(m.m_sent, m.m_received);
	assert_int_equal(m.m_sums[0], m.m_sums[1]);
	for (size_t i = 0; i < CHANS; i++) {
		assert_int_equal(usync_chan_close(m.m_chans[i]), 0);
		usync_chan_destroy(m.m_chans[i]);
	}
}

TEST_CASE(test_trade, each_scheduler, trading)

int main(void)
{
	return over_all(OVER_ALL);
}
