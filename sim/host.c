/* SPDX-License-Identifier: MIT */
/*
 * host.c: hosts, and faults by plan and by chance. Threads and names of files are marked
 * with their host. A new thread inherits the host of the thread that starts the new one.
 *
 * A thread whose host has crashed is never chosen again. Such a thread is not freed,
 * because queues may be linked through objects in its stack frames, and threads of other
 * hosts may use these objects. The wait of such a thread is withdrawn. Then other threads
 * get the lock or value that the thread waited for.
 */
#include <pthread.h>

#include "../posix/uposix_set.h"
#include "../src/wait/wait.h"
#include "world.h"

struct plan {
	int64_t          p_time;
	struct sim_fault p_fault;
};

struct sim_faults sim__faults;
struct sim_host sim__nowhere;

static struct sim_host *hosts;          /* newest first */

void sim__hook(const char *name, void (*with)(void), void *real)
{
	void *before, *now;

	memcpy(&now, &with, sizeof now);
	before = uposix__replace(name, now);
	memcpy(real, &before, sizeof before);
}

struct sim_host *sim__find_host(const char *name)
{
	struct sim_host *h = hosts;

	while (h && strcmp(h->h_name, name) != 0
	       && !(h->h_address && strcmp(h->h_address, name) == 0))
		h = h->h_next;
	return h;
}

/* ---- Threads ---- */

/* Running threads of POSIX have records; threads of rr and other schedulers have none. */
struct sim_host *sim__single(const struct sim_thread *t)
{
	struct sim_host *h = sim__state_of(t->t_host);

	return h->h_single && !uposix__record_of(&t->t_thread->th_stack) ? h : NULL;
}

int sim__start_late(struct sim_host *host, void *(*func)(void *), void *arg)
{
	pthread_t thread;

	if (uposix_pthread_create(&thread, NULL, func, arg))
		return -ENOMEM;
	LIST_FIRST(&sim__run.r_threads)->t_host = host;
	uposix_pthread_detach(thread);
	return 0;
}

int sim__start_on(struct sim_host *host, void *(*func)(void *), void *arg)
{
	return sim__self() ? sim__start_late(host, func, arg) : -EPERM;
}

static void *run_host(void *host)
{
	struct sim_host *h = host;

	h->h_func(h->h_arg);
	return NULL;
}

/* Withdraws a wait and disarms the timer. `e' no longer counts the wait. */
static void end_wait(struct uwaiter *w, struct uevents *e)
{
	uwait_withdraw(w);
	if (w->w_expiry.x_prev)
		e->e_disarm(e, &w->w_expiry);
	if (w->w_counted)
		uevents_count(e, -1);
	w->w_counted = false;
}

static void kill_thread(struct sim_thread *t)
{
	struct ustack *u = &t->t_thread->th_stack;
	struct uposix_thread *p = uposix__record_of(u);

	if (t->t_plain)
		usync_group_done(&sim__run.r_plain);
	t->t_plain = false;
	t->t_dead = true;
	sim__run.r_dead++;
	if (u->u_attached && u->u_attachment->a_ops == &uwait__ops)
		end_wait((struct uwaiter *)(void *)u->u_attachment,
			 ustack_sched(u)->s_events);
	if (p) {
		p->p_ended = true;
		p->p_mask = ~(uint64_t)0;
	}
}

bool sim__is_dead(const struct uproc_thread *t)
{
	const struct sim_thread *known = uproc_rest(t)->re_sim;

	return known && known->t_dead;
}

/* ---- Hosts ---- */

int sim_host_restart(struct sim_host *host)
{
	int rc;

	if (host->h_up)
		return -EALREADY;
	host->h_up = true;
	sim__note_fault("restart", host);
	rc = sim__start_on(host, run_host, host);
	host->h_up = rc == 0;
	return rc;
}

int sim_host_start(const char *name, const char *address, void (*func)(void *arg),
		   void *arg, struct sim_host **host)
{
	struct sim_host *h = sim__memory(sizeof *h);
	int rc;

	*h = (struct sim_host){ .h_next = hosts, .h_name = name, .h_address = address,
				.h_func = func, .h_arg = arg, .h_up = true,
				.h_number = hosts ? hosts->h_number + 1 : 1 };
	sim__run.r_hasty = false;
	rc = sim__start_on(h, run_host, h);
	if (rc) {
		free(h);
		return rc;
	}
	hosts = h;
	if (host)
		*host = h;
	return 0;
}

void sim__stop_host(struct sim_host *host)
{
	const struct sim_thread *self = sim__self();
	struct sim_thread *t;

	LIST_FOREACH(t, &sim__run.r_threads, t_of_run)
		if (t->t_host == host && !t->t_dead)
			kill_thread(t);
	host->h_single = false;
	host->h_keeps = NULL;
	if (!host->h_shares) {
		sim__drop_files(host);
		host->h_dir = NULL;
	}
	sim__close_all(host);
	host->h_process = NULL;
	sim__look_for_living();
	while (self && self->t_dead)
		ustack_block();
}

int sim_host_crash(struct sim_host *host)
{
	if (!host->h_up)
		return -EALREADY;
	host->h_up = false;
	sim__note_fault("crash", host);
	sim__stop_host(host);
	return 0;
}

/* ---- Faults by plan ---- */

/* Begins a fault, or, if `begins' is false, ends the fault. */
static void strike(const struct sim_fault *f, bool begins)
{
	static const char *const names[][2] = {
		[SIM_PARTITION] = { "the end of a partition", "partition" },
		[SIM_RESET]     = { "the end of a reset", "reset" },
		[SIM_SLOW]      = { "the end of slowness", "slow" },
		[SIM_DISK_FULL] = { "the disk has room", "the disk is full" },
		[SIM_CLOCK]     = { NULL, "the clock jumps" },
	};

	if (f->kind == SIM_CRASH) {
		begins ? sim_host_crash(f->a) : sim_host_restart(f->a);
		return;
	}
	sim__note_fault(names[f->kind][begins], f->a);
	if (f->kind == SIM_DISK_FULL)
		f->a->h_full = begins;
	else if (begins && f->kind == SIM_RESET)
		sim__reset_all(f->a, f->b);
	else if (begins && f->kind == SIM_CLOCK)
		*(f->a ? &f->a->h_jump : &sim__run.r_jump) += f->for_ns;
	else if (begins)
		sim__break_net(f);
}

static void *run_plan(void *plan)
{
	const struct plan p = *(struct plan *)plan;

	free(plan);
	usync_sleep_until(p.p_time);
	strike(&p.p_fault, true);
	if (p.p_fault.for_ns > 0 && p.p_fault.kind != SIM_CLOCK) {
		usync_sleep_until(usync_after(p.p_fault.for_ns));
		strike(&p.p_fault, false);
	}
	sim__run.r_plans--;
	return NULL;
}

int sim_at(int64_t time, const struct sim_fault *fault)
{
	struct plan *p = sim__memory(sizeof *p);
	int rc;

	*p = (struct plan){ time, *fault };
	rc = sim__start_on(NULL, run_plan, p);
	if (rc)
		free(p);
	else
		sim__run.r_plans++;
	return rc;
}

/* ---- Faults by chance ---- */

void sim_faults(const struct sim_faults *faults)
{
	sim__faults = *faults;
}

void sim__may_crash(void)
{
	struct sim_fault crash = { SIM_CRASH, sim__host(), NULL, 0 };
	int64_t most = sim__faults.f_down_ns ? sim__faults.f_down_ns : SECOND;

	if (!sim__strikes("crash", sim__faults.f_crash))
		return;
	crash.for_ns = 1 + (int64_t)sim__choose("how long a host is down", (size_t)most);
	if (sim_at(0, &crash))
		sim_fail("no memory for a crash");
}
