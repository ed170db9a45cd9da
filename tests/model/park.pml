/* SPDX-License-Identifier: MIT */
/*
 * park.pml: sleep and wake of processors, the detection of a deadlock, and the end of a
 * scheduler: uproc_park.c, and the interrupt of uevents.c.
 *
 * Threads do anything in any order, ACTIONS times each: wait for a token, wake another
 * thread, wait for an event, join another thread, end. Native threads join some of them,
 * or hold the scheduler and wake some. Then one destroys it, which must come to an end.
 * mail.pml shows how mail works; here mail and inbox are words, and a drain is one step.
 * Not here: c_embed.
 *
 * With MOVES, a processor that is about to park asks for threads, and one that has
 * several gives it one: doc/moving.md. ROGUES are native threads that wake a thread without a
 * hold, while it is reported stuck or aborted.
 *
 * Searches of tests/scripts/model.sh:
 *   short: -DACTIONS=1
 *   long: -DJOINERS=1
 *   short: -DEVENTS=1
 *   long: -DPROCESSORS=1 -DTHREADS=3 -DACTIONS=2
 *   long: -DHOLDERS=1
 *   long: -DEVENTS=1 -DHAS_EVENTS=1
 *   long: -DPROCESSORS=3 -DACTIONS=1
 *   long: -DPROCESSORS=3 -DTHREADS=3 -DACTIONS=0 -DJOINERS=1
 *   short: -DACTIONS=0 -DMOVES=1 -DEVEN=0 -DJOINERS=1
 *   long: -DACTIONS=1 -DMOVES=1 -DEVEN=0
 *   long: -DACTIONS=1 -DMOVES=1 -DEVEN=0 -DEVENTS=1
 *   long: -DACTIONS=0 -DMOVES=1 -DROGUES=1 -DSTUCK=1
 *   long: -DPROCESSORS=3 -DACTIONS=0 -DMOVES=1 -DEVEN=0
 *   BREAK_DEADLINE_NOT_TOLD: -DPROCESSORS=1 -DJOINERS=2
 *   BREAK_LATE_NEWS: -DPROCESSORS=1 -DTHREADS=3 -DACTIONS=2
 *   BREAK_MARK_WITHOUT_CAS: -DJOINERS=1
 *   BREAK_NO_LOOK_AT_EVENTS: -DEVENTS=1
 *   BREAK_NO_SECOND_LOOK: -DJOINERS=1
 *   BREAK_NO_SUGGESTION: -DJOINERS=1
 *   BREAK_NO_UNPARK: -DEVENTS=1
 *   BREAK_ON_BEFORE_IDLE: -DEVENTS=1 -DHAS_EVENTS=1
 *   BREAK_RELEASE_NOT_TOLD: -DACTIONS=0 -DHOLDERS=1
 *   BREAK_SIGNAL_WITHOUT_LOCK: -DACTIONS=0 -DHOLDERS=1
 *   BREAK_STOP_AFTER_SWAP: -DJOINERS=1
 *   BREAK_UNPARK_NOT_COUNTED: -DJOINERS=1
 *   BREAK_ASK_TAKES_MARK: -DACTIONS=1 -DMOVES=1 -DEVEN=0
 *   BREAK_FINI_FORGETS: -DACTIONS=0 -DMOVES=1 -DROGUES=1 -DSTUCK=1
 *   BREAK_GIVE_WITHOUT_UNPARK: -DACTIONS=1 -DMOVES=1 -DEVEN=0
 *   BREAK_MOVE_ARMED: -DACTIONS=1 -DMOVES=1 -DEVEN=0 -DEVENTS=1
 *   BREAK_MOVE_COUNTS_TWICE: -DACTIONS=1 -DMOVES=1 -DEVEN=0
 *   BREAK_MOVE_KEEPS_EVENT: -DACTIONS=1 -DMOVES=1 -DEVEN=0 -DEVENTS=1
 */
#ifndef PROCESSORS
#define PROCESSORS 2
#endif
#ifndef THREADS
#define THREADS    2
#endif
#ifndef ACTIONS
#define ACTIONS    1            /* of each thread, before it ends */
#endif
#ifndef JOINERS
#define JOINERS    0            /* native threads that join thread 0, 1, ... */
#endif
#ifndef HOLDERS
#define HOLDERS    0            /* native threads that hold, and wake a thread */
#endif
#ifndef LOOKS
#define LOOKS      0            /* for events, while threads are ready */
#endif
#ifndef EVENTS
#define EVENTS     0            /* that threads wait for */
#endif
#ifndef HAS_EVENTS
#define HAS_EVENTS 0            /* 1: every processor has events from the start */
#endif
#ifndef MOVES
#define MOVES      0            /* of threads to other processors */
#endif
#ifndef EVEN
#define EVEN       1            /* 0: all threads begin on the first processor */
#endif
#ifndef ROGUES
#define ROGUES     0            /* native threads that wake a thread without a hold */
#endif
#ifndef STUCK
#define STUCK      0            /* 1: all threads wait to begin with */
#endif
#define MAIN       JOINERS      /* among the waiters for r_changed */

#define first_of(t) (EVEN * ((t) % PROCESSORS))
#if MOVES
#define of(t)       owner[t]
#else
#define of(t)       first_of(t)
#endif
#define MOVING      PROCESSORS

/* p_inbox */
#define PARKED  1
#define STOPPED 2
#define MAIL    3
#define ASKED   4               /* empty; the processor is to look for others that ask */

/* u_mail */
#define MAIL_JOINED   1
#define MAIL_DEADLOCK 2
#define MAIL_NEWS     3
#define MAIL_TOKEN    4
#define MAIL_MOVED    128

/* re_joiner; a thread is its number */
#define NONE   100
#define ENDED  101
#define TAKEN  102
#define NATIVE 103

mtype = { RUNNABLE, RUNNING, WAITING, JOINING, OVER };

/* Threads. */
mtype state[THREADS];
byte u_mail[THREADS];
byte tokens[THREADS];
byte news[THREADS];
byte re_joiner[THREADS];
byte joined[THREADS];
byte left[THREADS];
bool waits_event[THREADS];      /* in uwait_block() */
bool armed[THREADS];            /* and not claimed */
bool fired[THREADS];
bool waking[THREADS];           /* claimed, and not finished */
byte armed_on[THREADS];         /* the processor that has the timer, */
bool counted[THREADS];          /* and counts it in e_waiting */
byte blocks[THREADS];
#if MOVES
byte owner[THREADS];
bool r_asking[PROCESSORS];      /* it has nothing to run */
byte moves = MOVES;
#endif
byte p_count[PROCESSORS];       /* p_started less p_ended */
bool yields[THREADS];           /* until late news of a deadlock comes */

/* Processors. */
byte p_inbox[PROCESSORS];
byte in_inbox[THREADS];         /* 1 + the processor */
bool p_lock[PROCESSORS];
bool p_asleep[PROCESSORS];      /* in pthread_cond_wait() */
bool s_events[PROCESSORS];
byte e_waiting[PROCESSORS];
bool v_interrupt[PROCESSORS];   /* the edge of the eventfd */
byte v_ready[PROCESSORS];       /* edges of awaited events: bits */
bool ended[PROCESSORS];         /* its native thread */
byte looks = LOOKS;
byte events = EVENTS;

/* All of them. */
bool r_lock;
bool r_stop;
byte r_parks;
byte r_unparks;
byte r_held = HOLDERS;
byte r_joining;
byte r_deadlocks;
bool r_changed[JOINERS + 1];
bool told[THREADS];             /* the list rp_told */
byte r_inside;
byte joiners_done;
byte rogues_done;

/* For checks. */
bool destroyed;
byte join_number[THREADS];      /* counts its joins */
byte told_number[THREADS];      /* of the join that the deadlock is told to */

inline lock(m)
{
	atomic { !m -> assert(!destroyed); m = true }
}

inline unlock(m)
{
	atomic { assert(m); m = false }
}

inline broadcast()
{
	d_step {
		for (k : 0 .. JOINERS) { r_changed[k] = true }
		k = 0
	}
}

inline unpark(q)
{
	if
	:: s_events[q] -> atomic { assert(!destroyed); v_interrupt[q] = true }
	:: else ->
#ifdef BREAK_SIGNAL_WITHOUT_LOCK
		p_asleep[q] = false
#else
		lock(p_lock[q]);
		atomic { p_asleep[q] = false; p_lock[q] = false }
#endif
	fi
}

/* A pusher that finds the mark has to unpark. */
inline push_to(t, q)
{
	atomic {
		assert(!destroyed && !in_inbox[t] && q != MOVING);
		in_inbox[t] = 1 + q;
		first = p_inbox[q];
		p_inbox[q] = MAIL
	}
	if
#ifdef BREAK_NO_UNPARK
	:: first == PARKED && !s_events[q] -> unpark(q)
#else
	:: first == PARKED -> unpark(q)
#endif
	:: else
	fi;
	first = 0
}

/* The owner is read once: the thread may move as soon as it is pushed. */
inline push_inbox(t)
{
#if MOVES
	at = of(t);
	push_to(t, at);
	at = 0
#else
	push_to(t, of(t))
#endif
}

inline uproc_post(t, mail)
{
	atomic {
		old = u_mail[t];
		if
		:: state[t] == OVER -> old = 255
		:: else -> u_mail[t] = (mail == MAIL_TOKEN -> old + mail : old | mail)
		fi
	}
	if
	:: old == 0 -> push_inbox(t)
	:: else
	fi;
	old = 0
}

/* Tells the joiner of a thread's end: uproc__settle_thread() in uproc_mail.c. mail.pml has the details. */
inline settle(p, t)
{
	do
	:: atomic {
		joiner = re_joiner[t];
		if
		:: joiner == NONE -> re_joiner[t] = ENDED
		:: joiner < THREADS -> re_joiner[t] = TAKEN
		:: else
		fi
	   }
	   if
	   :: joiner == NATIVE ->
		lock(r_lock);
		atomic {
			r_lock = false;
			if
			:: re_joiner[t] == NATIVE ->
				re_joiner[t] = TAKEN;
				r_joining--;
				broadcast();
				break
			:: else                         /* it has given up */
			fi
		}
	   :: atomic { joiner < THREADS && of(joiner) == p ->
			news[joiner] = news[joiner] | MAIL_JOINED;
			make_runnable(joiner)
		}
		break
	   :: joiner < THREADS && of(joiner) != p ->
		uproc_post(joiner, MAIL_JOINED);
		break
	   :: joiner == NONE -> break
	   fi
	od;
	joiner = 0
}

/* over: bits of the threads that have ended with mail on its way. */
inline uproc_drain(p)
{
	d_step {
		p_inbox[p] = 0;
		for (i : 0 .. THREADS - 1) {
			if
			:: in_inbox[i] == 1 + p ->
				in_inbox[i] = 0;
#if MOVES
				if
				:: u_mail[i] & MAIL_MOVED ->
					assert(of(i) == MOVING);
					of(i) = p;
					u_mail[i] = u_mail[i] - MAIL_MOVED
				:: else
				fi;
#endif
				over = over | ((state[i] == OVER) << i);
				if
				:: state[i] == JOINING || news[i] ->
					news[i] = news[i] | (u_mail[i] & MAIL_NEWS)
				:: else         /* late: it was resumed meanwhile */
				fi;
				tokens[i] = tokens[i] + u_mail[i] / MAIL_TOKEN;
				u_mail[i] = 0;
				make_runnable(i)
			:: else
			fi
		}
		i = 0
	}
	do
	:: over == 0 -> break
	:: else ->
		if
		:: over & (1 << i) -> over = over & ~(1 << i); settle(p, i)
		:: else
		fi;
		i++
	od;
	i = 0
}

inline make_runnable(t)
{
	if
	:: state[t] == WAITING && tokens[t] > 0 -> tokens[t]--; state[t] = RUNNABLE
	:: state[t] == JOINING && news[t] -> state[t] = RUNNABLE
	:: else
	fi
}

/* e_poll: takes the edges. */
inline uproc_poll(p)
{
	d_step { v_interrupt[p] = false; edges = v_ready[p]; v_ready[p] = 0 }
	do
	:: edges != 0 ->
		d_step {
			i = 0;
			do
			:: !(edges & (1 << i)) -> i++
			:: else -> break
			od;
			edges = edges & ~(1 << i);
			if
			:: armed[i] && of(i) == p ->
				armed[i] = false;
				tokens[i]++;
				make_runnable(i);
				i = THREADS
			:: armed[i] && of(i) != p -> armed[i] = false; waking[i] = true
			:: else -> i = THREADS
			fi
		}
		if
		:: i < THREADS ->
			assert(waits_event[i]);         /* or it may be freed */
			uproc_post(i, MAIL_TOKEN);
			waking[i] = false
		:: else
		fi
	:: else -> break
	od;
	i = 0
}

inline suggest_end()
{
	atomic {
		!r_lock ->
		assert(!destroyed);
		if
		:: r_joining > 0 -> broadcast()
		:: else
		fi
	}
}

/* From the mark to its end. */
inline sleep_parked(p)
{
	atomic { assert(!destroyed); r_parks++; count = r_parks };
	if
#ifndef BREAK_NO_SUGGESTION
	:: atomic { count - r_unparks == PROCESSORS && e_waiting[p] == 0 -> count = 0 }
		suggest_end()
#endif
	:: else
	fi;
	count = 0;
	if
	:: s_events[p] && (v_interrupt[p] || v_ready[p]) -> uproc_poll(p)
	:: !s_events[p] ->
		lock(p_lock[p]);
		do
		:: p_inbox[p] == PARKED ->
			atomic { p_asleep[p] = true; p_lock[p] = false };
			!p_asleep[p];
			lock(p_lock[p])
		:: p_inbox[p] != PARKED -> break
		od;
		unlock(p_lock[p])
	fi;
	atomic {
		if
		:: p_inbox[p] == PARKED -> p_inbox[p] = 0
		:: else
		fi
	}
#ifndef BREAK_UNPARK_NOT_COUNTED
	atomic { assert(!destroyed); r_unparks++ }
#endif
}

/* After the wait: the rest of a join, or of uwait_block(). */
inline go_on(p, t)
{
	d_step {
#ifndef BREAK_ON_BEFORE_IDLE
		!waking[t];
#endif
		state[t] = RUNNING;
		if
		:: news[t] ->
			assert(news[t] & MAIL_JOINED || told_number[t] == join_number[t]);
			if
			:: news[t] & MAIL_JOINED -> yields[t] = true
			:: !(news[t] & MAIL_JOINED) && re_joiner[joined[t]] == t ->
				re_joiner[joined[t]] = NONE;
				yields[t] = true
			:: else -> state[t] = JOINING           /* news is on its way */
			fi;
			news[t] = 0
		:: waits_event[t] ->
			blocks[t]++;
			do
			:: armed[t] && tokens[t] > 0 -> tokens[t]--; blocks[t]++
			:: armed[t] && tokens[t] == 0 -> state[t] = WAITING; break
			:: !armed[t] -> break
			od;
			if
			:: !armed[t] ->
				waits_event[t] = false;
				tokens[t] = tokens[t] + blocks[t] - 1;
				blocks[t] = 0;
				e_waiting[p] = e_waiting[p] - counted[t];
				counted[t] = false
			:: else
			fi
		:: else
		fi;
#ifdef BREAK_LATE_NEWS
		yields[t] = false;
#endif
		yields[t] = yields[t] && u_mail[t] & MAIL_DEADLOCK;
		if
		:: yields[t] -> state[t] = RUNNABLE
		:: else
		fi
	}
}

/* u: the other thread, or itself */
inline act(p, t)
{
	if
	:: d_step { u == t ->                                   /* wait */
		if
		:: tokens[t] > 0 -> tokens[t]--
		:: else -> state[t] = WAITING
		fi
	   }
	:: d_step { u == t && tokens[t] == 0 && events > 0 ->   /* wait for an event */
		events--;
		s_events[p] = true;
		e_waiting[p]++;
		counted[t] = true;
		armed_on[t] = p;
		waits_event[t] = true;
		armed[t] = true;
		fired[t] = false;
		state[t] = WAITING
	   }
	:: d_step { u != t && of(u) == p && state[u] != OVER ->
		tokens[u]++;
		make_runnable(u)
	   }
	:: u != t && of(u) != p -> uproc_post(u, MAIL_TOKEN)
	:: d_step { u != t && re_joiner[u] == NONE ->
		re_joiner[u] = t;
		joined[t] = u;
		join_number[t]++;
		state[t] = JOINING
	   }
	:: d_step { u != t && re_joiner[u] == ENDED -> re_joiner[u] = TAKEN }
	:: u != t && re_joiner[u] != NONE && re_joiner[u] != ENDED
	fi;
	u = 0
}

inline pick(p)
{
	if
	:: of(0) == p && state[0] == RUNNABLE -> t = 0
#if THREADS > 1
	:: of(1) == p && state[1] == RUNNABLE -> t = 1
#endif
#if THREADS > 2
	:: of(2) == p && state[2] == RUNNABLE -> t = 2
#endif
	:: else -> t = NONE
	fi
}

#if MOVES
#define can_move(i) (of(i) == p && state[i] == RUNNABLE && can_leave(i))
#ifdef BREAK_MOVE_ARMED
#define can_leave(i) (!news[i] && !yields[i])
#else
#define can_leave(i) (!news[i] && !yields[i] && !armed[i])
#endif

#if THREADS == 1
#define has_one(p) can_move(0)
#elif THREADS == 2
#define has_one(p) (can_move(0) || can_move(1))
#else
#define has_one(p) (can_move(0) || can_move(1) || can_move(2))
#endif

/* Gives one that is runnable, if it can. In src/proc: one of several. */
inline give(p, q)
{
	atomic {
		moves > 0 && r_asking[q] && has_one(p) ->
		if
		:: can_move(0) -> t = 0
#if THREADS > 1
		:: can_move(1) -> t = 1
#endif
#if THREADS > 2
		:: can_move(2) -> t = 2
#endif
		fi;
		moves--;
		r_asking[q] = false;
		p_count[q]++
	}
	atomic {
		if
		:: u_mail[t] == 0 -> u_mail[t] = MAIL_MOVED
		:: else -> put_back = true; t = NONE
		fi
	}
	if
	:: t != NONE ->
		atomic {
			of(t) = MOVING;
#ifndef BREAK_MOVE_COUNTS_TWICE
			p_count[p]--;
#endif
#ifndef BREAK_MOVE_KEEPS_EVENT
			e_waiting[p] = e_waiting[p] - counted[t];
			counted[t] = false
#endif
		}
#ifdef BREAK_GIVE_WITHOUT_UNPARK
		atomic { in_inbox[t] = 1 + q; p_inbox[q] = MAIL };
#else
		push_to(t, q);
#endif
		t = NONE
	:: else
	fi;
	atomic {
		if
		:: put_back -> p_count[q]--; r_asking[q] = true
		:: else
		fi;
		put_back = false
	}
}

/* Before it parks: a bit, and a mark for the other if its inbox is empty. */
inline ask(p, q)
{
	if
	:: moves > 0 ->
		r_asking[p] = true;
		atomic {
			if
#ifdef BREAK_ASK_TAKES_MARK
			:: p_inbox[q] == 0 || p_inbox[q] == PARKED -> p_inbox[q] = ASKED
#else
			:: p_inbox[q] == 0 -> p_inbox[q] = ASKED
#endif
			:: else
			fi
		}
	:: true
	fi
}
#endif

proctype processor(byte p)
{
	byte t = NONE;
	byte u, i, k, first, old, edges, joiner, count, over, at;
	bool put_back;

next_thread:
#if LOOKS
	if
	:: atomic { looks > 0 && s_events[p] -> looks-- } uproc_poll(p)
	:: true
	fi;
#endif
#if MOVES
	if
	:: p_inbox[p] != 0 -> uproc_drain(p)
	:: p_inbox[p] == 0
	fi;
	if
	:: give(p, (p + 1) % PROCESSORS)
	:: true
	fi;
	atomic { pick(p) };
#else
	if
	:: p_inbox[p] != 0 -> uproc_drain(p); atomic { pick(p) }
	:: atomic { p_inbox[p] == 0 -> pick(p) }
	fi;
#endif
	do                                              /* uproc_park() */
	:: t != NONE -> break
	:: t == NONE && r_stop -> goto stopped
	:: t == NONE && !r_stop ->
#if MOVES
		ask(p, (p + 1) % PROCESSORS);
#endif
		atomic {
#ifdef BREAK_MARK_WITHOUT_CAS
			count = 1;
#else
			count = p_inbox[p] == 0;
#endif
			if
			:: count -> p_inbox[p] = PARKED
			:: else
			fi
		}
		if
		:: count -> count = 0; sleep_parked(p)
		:: else
		fi;
		uproc_drain(p);
#if MOVES
		if
		:: give(p, (p + 1) % PROCESSORS)
		:: true
		fi;
#endif
		atomic { pick(p) }
	od;
#if MOVES
	r_asking[p] = false;
#endif
	go_on(p, t);
	do
	:: atomic { state[t] == RUNNING && left[t] > 0 ->
		left[t]--;
		select(u : 0 .. THREADS - 1)
	   }
		act(p, t)
	:: atomic { state[t] == RUNNING && left[t] == 0 ->      /* uproc__done() */
		state[t] = OVER; p_count[p]--; old = u_mail[t] }
		if
		:: old == 0 -> settle(p, t)
		:: else -> old = 0
		fi;
		break
	:: state[t] != RUNNING -> break
	od;
	t = NONE;
	goto next_thread;
stopped:
	ended[p] = true
}

/* No process can go on, except holders that have not begun. */
inline assert_stuck()
{
	i = 0;
#if !ROGUES
	assert(r_held == 0);
	for (i : 0 .. THREADS - 1) {
		assert(u_mail[i] == 0 && !in_inbox[i] && !waits_event[i]);
		assert(state[i] == OVER || (state[i] == WAITING && tokens[i] == 0)
			|| (state[i] == JOINING && !news[i] && state[joined[i]] != OVER))
	}
	i = 0
#endif
}

inline assert_all_over()
{
	atomic {
		i = 0;
		do
		:: i < THREADS && state[i] == OVER -> i++
		:: else -> break
		od;
		assert(ROGUES || quiet == (i == THREADS));
		i = 0
	}
}

/* mail_joiner() for each, while all stand still; then the pushes, one by one. */
inline report_stuck()
{
	atomic {
		joins = false;
		for (i : 0 .. THREADS - 1) {
			if
			:: state[i] == JOINING ->
				joins = true;
				u_mail[i] = MAIL_DEADLOCK;
				told[i] = true;
				told_number[i] = join_number[i]
			:: else
			fi
		}
		i = 0
	}
	if
	:: joins ->
		do
		:: i < THREADS ->
			if
			:: told[i] -> told[i] = false; push_inbox(i)
			:: else
			fi;
			i++
		:: i == THREADS -> break
		od;
		i = 0
	:: else -> atomic { r_deadlocks++; broadcast() }
	fi
}

/* Under r_lock. */
inline detect_end()
{
	quiet = false;
	unparks = r_unparks;
	if
	:: r_held == 0 && r_parks - unparks == PROCESSORS ->
		count = 0;
		do
		:: i < PROCESSORS && p_inbox[i] == PARKED ->
#ifndef BREAK_NO_LOOK_AT_EVENTS
			if
			:: e_waiting[i] > 0 -> break
			:: else
			fi;
#endif
			atomic { count = count + p_count[i]; i++ }
		:: i < PROCESSORS && p_inbox[i] != PARKED -> break
		:: i == PROCESSORS -> break
		od;
		if
#ifdef BREAK_NO_SECOND_LOOK
		:: atomic { i == PROCESSORS ->
#else
		:: atomic { i == PROCESSORS && r_unparks == unparks ->
#endif
			assert_stuck() }
			quiet = count == 0;
			assert_all_over();
			if
			:: count > 0 -> report_stuck()
			:: else
			fi
		:: else
		fi;
		i = 0
	:: else
	fi
}

/* rc: 0, 1 for a deadlock, 2: the deadline has come. all: until all threads have ended */
inline await(n, t, all, deadline)
{
	lock(r_lock);
	atomic {
		claimed = true;
		timely = true;
		if
		:: !all && re_joiner[t] == NONE -> re_joiner[t] = NATIVE
		:: !all && re_joiner[t] == ENDED -> re_joiner[t] = TAKEN; claimed = false
		:: !all && re_joiner[t] != NONE && re_joiner[t] != ENDED -> claimed = false
		:: all -> assert(r_inside == 0)
		fi;
		r_inside++;
		r_held = r_held + deadline;
		r_joining = r_joining + claimed;
		seen = r_deadlocks
	}
	do
	:: !claimed -> break
	:: claimed ->
		if
		:: !all && re_joiner[t] == TAKEN -> break
		:: else
		fi;
		if
		:: r_deadlocks == seen && timely -> detect_end()
		:: else
		fi;
		if
		:: r_deadlocks != seen || (all && quiet) || !timely ->
			atomic {
				r_joining--;
				if
				:: !all -> re_joiner[t] = NONE
				:: else
				fi
			}
			break
		:: else ->
			atomic { r_changed[n] = false; r_lock = false };
			if
			:: r_changed[n]
			:: deadline -> timely = false
			fi;
			lock(r_lock)
		fi
	od;
	atomic {
		r_held = r_held - deadline;
#ifndef BREAK_DEADLINE_NOT_TOLD
		if
		:: deadline && r_held == 0 && r_joining > 0 -> broadcast()
		:: else
		fi;
#endif
		r_inside--;
		r_lock = false;
		deadline = false;
		quiet = false;
		unparks = 0;
		seen = 0;
		count = 0
	}
}

proctype joiner(byte n)
{
	byte t = n;
	byte i, k, first, unparks, count, seen, at;
	bool deadline, claimed, timely, quiet, joins;

	if
	:: deadline = true
	:: deadline = false
	fi;
	await(n, t, false, deadline);
	joiners_done++
}

proctype holder()
{
	byte u, k, first, old, at;

	atomic { select(u : 0 .. THREADS - 1) };
	uproc_post(u, MAIL_TOKEN);
	atomic {
		!r_lock ->
		assert(!destroyed);
		r_held--;
#ifndef BREAK_RELEASE_NOT_TOLD
		if
		:: r_held == 0 && r_joining > 0 -> broadcast()
		:: else
		fi
#endif
	}
}

proctype rogue()
{
	byte u, k, first, old, at;

	atomic { select(u : 0 .. THREADS - 1) };
	uproc_post(u, MAIL_TOKEN);
	rogues_done++
}

/* An awaited event happens: on its processor, or on another before that. */
inline happen(t)
{
	atomic {
		armed[t] && !fired[t] ->
		fired[t] = true;
		v_ready[armed_on[t]] = v_ready[armed_on[t]] | (1 << t);
		if
		:: s_events[(armed_on[t] + 1) % PROCESSORS] ->
			v_ready[(armed_on[t] + 1) % PROCESSORS] =
				v_ready[(armed_on[t] + 1) % PROCESSORS] | (1 << t)
		:: true
		fi
	}
}

proctype kernel()
{
end:
	do
	:: happen(0)
#if THREADS > 1
	:: happen(1)
#endif
#if THREADS > 2
	:: happen(2)
#endif
	od
}

init
{
	byte t, i, k, first, unparks, count, seen, at;
	bool deadline, claimed, timely, quiet, joins;

	atomic {
		for (i : 0 .. THREADS - 1) {
			state[i] = (STUCK -> WAITING : RUNNABLE);
#if MOVES
			owner[i] = first_of(i);
#endif
			p_count[first_of(i)]++;
			re_joiner[i] = NONE;
			left[i] = ACTIONS
		}
		for (i : 0 .. PROCESSORS - 1) {
			s_events[i] = HAS_EVENTS;
			run processor(i)
		}
		for (i : 0 .. HOLDERS - 1) { run holder() }
		for (i : 0 .. JOINERS - 1) { run joiner(i) }
		for (i : 0 .. ROGUES - 1) { run rogue() }
		run kernel();
		i = 0
	}
	joiners_done == JOINERS;
	await(MAIN, t, true, deadline);
	rogues_done == ROGUES;
#ifndef BREAK_STOP_AFTER_SWAP
	r_stop = true;                                  /* stop_natives() */
#endif
	do
	:: i < PROCESSORS ->
		atomic { first = p_inbox[i]; p_inbox[i] = STOPPED };
#ifdef BREAK_STOP_AFTER_SWAP
		r_stop = true;
#endif
		if
		:: first == PARKED -> unpark(i)
		:: else
		fi;
		ended[i];
		i++
	:: i == PROCESSORS -> break
	od;
#if MOVES
	atomic {                                        /* uprocs_destroy() */
		for (i : 0 .. THREADS - 1) {
			if
#ifndef BREAK_FINI_FORGETS
			:: of(i) == MOVING -> assert(in_inbox[i]); of(i) = 0
#endif
			:: else
			fi;
			assert(of(i) != MOVING)         /* ustack_abort() needs it */
		}
	}
#endif
	destroyed = true
}
