/* SPDX-License-Identifier: MIT */
/*
 * mail.pml: mail, inboxes, tokens, joins, and the end of threads: uproc.h, uproc_mail.c,
 * uproc_join.c.
 *
 * Processors run threads, which do anything in any order, ACTIONS times each. Native
 * threads do the same from outside, NATIVE_ACTIONS times each. When no process can go on,
 * the end of `init' checks the state. A processor here waits for its inbox; park.pml has
 * the way in which it sleeps.
 *
 * Records are 1, 2, ...; 0 is NULL. A freed record can be used again.
 *
 * With MOVES, runnable threads move: doc/moving.md. A thread in a join does not. It is
 * left open which processor gives, and when: each that has a runnable thread, to each
 * other; and which thread that is woken from elsewhere follows. `held' is not in the C
 * code: the processor that may touch a thread.
 *
 * Searches of tests/scripts/model.sh:
 *   short: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   long: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DSTARTS=1
 *   long: -DACTIONS=1 -DNATIVE_ACTIONS=2
 *   long: -DPROCESSORS=3 -DRECORDS=3 -DACTIONS=0 -DNATIVE_ACTIONS=1
 *   long: -DPROCESSORS=3 -DRECORDS=3 -DACTIONS=1 -DNATIVE_ACTIONS=0 -DINTERRUPTS=0
 *   short: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1 -DINTERRUPTS=0
 *   long: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=2
 *   long: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1 -DSTARTS=1
 *   long: -DPROCESSORS=3 -DACTIONS=1 -DNATIVE_ACTIONS=0 -DMOVES=2 -DINTERRUPTS=0
 *   long: -DPROCESSORS=3 -DRECORDS=3 -DACTIONS=0 -DNATIVE_ACTIONS=1 -DMOVES=1 -DINTERRUPTS=0
 *   BREAK_CLEAR_BEFORE_NEXT: -DACTIONS=0 -DNATIVE_ACTIONS=1 -DRECORDS=3
 *   BREAK_ENDED_WITHOUT_CAS: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_GIVE_UP_WITHOUT_CAS: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_NATIVE_LEAVES_NAME: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_NEWS_TWICE: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_POST_TO_ENDED: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_PUSH_ALWAYS: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_PUSH_WITHOUT_CAS: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DRECORDS=3
 *   BREAK_SETTLE_AT_ONCE: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_WAKE_KEEPS_TOKEN: -DACTIONS=1 -DNATIVE_ACTIONS=1
 *   BREAK_MOVE_CLEARS_FIRST: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_GIVES_NAME: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_JOINING: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_KEEPS_PLACE: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_NAMES_FIRST: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_NO_PLACE: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_MOVE_WITH_MAIL: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 *   BREAK_POST_READS_FIRST: -DACTIONS=1 -DNATIVE_ACTIONS=1 -DMOVES=1
 */
#ifndef PROCESSORS
#define PROCESSORS     2
#endif
#ifndef RECORDS
#define RECORDS        2
#endif
#ifndef NATIVES
#define NATIVES        1
#endif
#ifndef ACTIONS
#define ACTIONS        2        /* of each thread, before it ends */
#endif
#ifndef NATIVE_ACTIONS
#define NATIVE_ACTIONS 3        /* of each native thread */
#endif
#ifndef STARTS
#define STARTS         0        /* of threads besides the first ones */
#endif
#ifndef INTERRUPTS
#define INTERRUPTS     1
#endif
#ifndef MOVES
#define MOVES          0        /* of threads to other processors */
#endif
#define MOVING PROCESSORS       /* the owner of a thread that moves, or that another
				   processor has started */

/* re_joiner */
#define ENDED    (RECORDS + 1)
#define TAKEN    (RECORDS + 2)
#define DETACHED (RECORDS + 3)
#define NATIVE   (RECORDS + 4)

/* u_mail */
#define MAIL_ENDED    1
#define MAIL_JOINED   4
#define MAIL_START    MAIL_JOINED       /* a new one cannot join, */
#define MAIL_MOVED    MAIL_JOINED       /* nor one that moves */
#define MAIL_DEADLOCK 8
#define MAIL_CANCEL   16
#define MAIL_TOKEN    32

/* u_tokens: as in C, with fewer bits */
#define UPROC_WAITING  (-1)
#define UPROC_ENDED    (-768)
#define UPROC_JOINING  (-512)
#define UPROC_JOINED   64       /* 16 times the mail */
#define UPROC_DEADLOCK 128
#define UPROC_NEWS     192
#define UPROC_TOKENS   63

/* p_intent */
#define UPROC_BLOCK 0
#define UPROC_WAIT  1
#define UPROC_YIELD 2

#define joins(t) (u_tokens[t] >= UPROC_JOINING && u_tokens[t] < UPROC_WAITING \
		  && !(u_tokens[t] & UPROC_NEWS))

/* The records. */
short u_mail[RECORDS + 1];
short u_tokens[RECORDS + 1];
byte  re_joiner[RECORDS + 1];
byte  re_next[RECORDS + 1];
byte  uproc_of[RECORDS + 1];
byte  joined[RECORDS + 1];      /* on its stack: the thread that it joins, */
byte  had[RECORDS + 1];         /* its tokens before, */
byte  left[RECORDS + 1];        /* the actions that are left */
bool  fresh[RECORDS + 1];       /* it is on s_new, and in no queue */

/* The processors, and native threads that join. */
byte  p_inbox[PROCESSORS];
chan  p_queue[PROCESSORS] = [RECORDS] of { byte };
bool  r_lock;
byte  r_joining;
byte  p_count[PROCESSORS];      /* p_started less p_ended */
bool  r_changed[NATIVES];
byte  awaited[NATIVES];

/* Not in the C code: for checks. */
bool  freed[RECORDS + 1];
bool  in_inbox[RECORDS + 1];
bool  in_queue[RECORDS + 1];
byte  posted[RECORDS + 1];
byte  taken[RECORDS + 1];
bool  cancelled[RECORDS + 1];
bool  to_cancel[RECORDS + 1];
byte  interrupts = INTERRUPTS;
byte  starts = STARTS;
byte  moves = MOVES;
byte  held[RECORDS + 1];

inline lock(m)
{
	atomic { !m -> m = true }
}

/* On p. */
inline uproc_push(p, t)
{
	assert(!in_queue[t] && !freed[t] && uproc_of[t] == p && held[t] == p);
	assert(len(p_queue[p]) < p_count[p]);           /* the ring has room */
	in_queue[t] = true;
	p_queue[p] ! t
}

/* The last user frees it. */
inline put_record(t)
{
	assert(!freed[t] && !in_inbox[t] && !in_queue[t] && u_mail[t] == MAIL_ENDED);
	freed[t] = true
}

/* To the inbox of processor `to'. */
inline push_to(t, to)
{
#ifdef BREAK_PUSH_WITHOUT_CAS
	re_next[t] = p_inbox[to];
#endif
	atomic {
		assert(!freed[t] && !in_inbox[t] && to != MOVING);
#ifndef BREAK_PUSH_WITHOUT_CAS
		re_next[t] = p_inbox[to];
#endif
		p_inbox[to] = t;
		in_inbox[t] = true
	}
}

/* The owner is read after the mail was sent: then it does not change before the push. */
inline push_inbox(t)
{
#if MOVES && !defined(BREAK_POST_READS_FIRST)
	at = uproc_of[t];
#endif
#if MOVES
	push_to(t, at);
	at = 0
#else
	push_to(t, uproc_of[t])
#endif
}

inline uproc_post(t, mail)
{
#ifdef BREAK_POST_READS_FIRST
	at = uproc_of[t];
#endif
	atomic {
		old = u_mail[t];
#ifdef BREAK_POST_TO_ENDED
		if
		:: true ->
#else
		if
		:: old & MAIL_ENDED                     /* -ESRCH */
		:: else ->
#endif
			assert(!freed[t]);
			u_mail[t] = (mail < MAIL_TOKEN -> old | mail : old + mail);
			posted[t] = posted[t] + (mail == MAIL_TOKEN);
			to_cancel[t] = to_cancel[t] || mail == MAIL_CANCEL
		fi
	}
	if
#ifdef BREAK_PUSH_ALWAYS
	:: !(old & MAIL_ENDED) -> push_inbox(t)
#else
	:: old == 0 -> push_inbox(t)
#endif
	:: else
	fi;
	old = 0
#ifdef BREAK_POST_READS_FIRST
	; at = 0
#endif
}

/* rc: 0, 1, or 2 for -EINVAL. A handle must not be used after its record is freed. */
inline claim(t, by)
{
	atomic {
		if
		:: !freed[t] && re_joiner[t] == 0 -> re_joiner[t] = by; rc = 0
		:: !freed[t] && re_joiner[t] == ENDED -> rc = 1
		:: else -> rc = 2
		fi
	}
	if
	:: rc == 1 ->
		atomic {
			if
			:: re_joiner[t] == ENDED -> re_joiner[t] = TAKEN
			:: else -> rc = 2
			fi
		}
	:: else
	fi
}

/* For a thread that comes. */
inline make_place(to)
{
#ifndef BREAK_MOVE_NO_PLACE
	p_count[to]++
#else
	skip
#endif
}

/* On the processor of `t', which owns it. */
inline deliver(p, t, mail)
{
	assert(!freed[t] && u_tokens[t] != UPROC_ENDED && held[t] == p);
	more = mail / MAIL_TOKEN;
	if
	:: mail & MAIL_START && fresh[t] ->
		fresh[t] = false;
		uproc_push(p, t)
	:: else
	fi;
	if
	:: u_tokens[t] == UPROC_WAITING && more > 0 ->
		u_tokens[t] = 0;
#ifndef BREAK_WAKE_KEEPS_TOKEN
		more--;
#endif
		taken[t]++;
#if MOVES
		if
		:: moves > 0 && !(mail & (MAIL_JOINED | MAIL_DEADLOCK | MAIL_CANCEL)) ->
			moves--;                        /* uproc__follow() */
			make_place((p + 1) % PROCESSORS);
			follows = true
		:: uproc_push(p, t)
		fi
#else
		uproc_push(p, t)
#endif
	:: else
	fi;
	u_tokens[t] = u_tokens[t] + more;
	more = 0;
	cancelled[t] = cancelled[t] || mail & MAIL_CANCEL;
	if
	:: mail & (MAIL_JOINED | MAIL_DEADLOCK) && u_tokens[t] < UPROC_WAITING ->
		if
#ifdef BREAK_NEWS_TWICE
		:: true -> uproc_push(p, t)
#else
		:: !(u_tokens[t] & UPROC_NEWS) -> uproc_push(p, t)
		:: else
#endif
		fi;
		u_tokens[t] = u_tokens[t] | (mail & (MAIL_JOINED | MAIL_DEADLOCK)) * 16
	:: else
	fi
}

/* One step from lock to unlock: other holders of r_lock read our state only once. */
inline tell_native(t)
{
	atomic {
		!r_lock ->
		told = re_joiner[t] == NATIVE;
		if
		:: told ->
			re_joiner[t] = TAKEN;
			r_joining--;
			for (i : 0 .. NATIVES - 1) { r_changed[i] = true }
			i = 0
		:: else
		fi
	}
}

/* A loop for the recursion. */
inline settle(p, t)
{
	do
	:: atomic {
		assert(!freed[t]);
		joiner = re_joiner[t];
		told = joiner == DETACHED
	   }
	   if
	   :: joiner == 0 ->
		atomic {
			if
#ifdef BREAK_ENDED_WITHOUT_CAS
			:: true -> re_joiner[t] = ENDED; break
#else
			:: re_joiner[t] == 0 -> re_joiner[t] = ENDED; break
			:: else -> joiner = re_joiner[t]
#endif
			fi
		}
	   :: else
	   fi;
	   if
	   :: atomic { joiner == DETACHED -> put_record(t) } break
	   :: joiner == NATIVE -> tell_native(t)
	   :: else ->
		atomic {
			told = re_joiner[t] == joiner;
			if
			:: told -> re_joiner[t] = TAKEN
			:: else
			fi
		}
	   fi;
	   if
	   :: told && joiner == NATIVE -> break
	   :: told && joiner != NATIVE && uproc_of[joiner] == p ->
		atomic { deliver(p, joiner, MAIL_JOINED) };
		break
	   :: told && joiner != NATIVE && uproc_of[joiner] != p ->
		uproc_post(joiner, MAIL_JOINED);
		break
	   :: !told
	   fi
	od;
	atomic { joiner = 0; told = false }
}

/* A thread that moves to p, or was started for p: from now on it is one of p. */
inline arrive(p, t)
{
	atomic {
		if
#ifdef BREAK_MOVE_GIVES_NAME
		:: held[t] == MOVING ->
#else
		:: uproc_of[t] == MOVING ->
#endif
			uproc_of[t] = p;
			held[t] = p;
			fresh[t] = true         /* so that MOVED is no JOINED */
		:: else
		fi
	}
}

inline uproc_drain(p)
{
	d_step {
		t = p_inbox[p];
		p_inbox[p] = 0;
		do
		:: t != 0 ->
			next = re_next[t];
			re_next[t] = oldest;
			oldest = t;
			t = next
		:: else -> break
		od;
		t = oldest;
		oldest = 0;
		next = 0
	}
	do
	:: t != 0 ->
#ifdef BREAK_CLEAR_BEFORE_NEXT
		arrive(p, t);
		atomic {
			mail = u_mail[t]; u_mail[t] = mail & MAIL_ENDED;
			in_inbox[t] = false
		};
		atomic { next = re_next[t];
#else
		atomic { assert(!freed[t]); next = re_next[t]; in_inbox[t] = false };
#ifndef BREAK_MOVE_CLEARS_FIRST
		arrive(p, t);
#endif
		atomic { mail = u_mail[t]; u_mail[t] = mail & MAIL_ENDED;
#endif
#ifdef BREAK_MOVE_CLEARS_FIRST
		};
		arrive(p, t);
		atomic {
#endif
			if
			:: mail & MAIL_ENDED
			:: else -> deliver(p, t, mail); mail = 0
			fi
		}
		if
		:: mail & MAIL_ENDED -> settle(p, t)
		:: else
		fi;
#if MOVES
		if
		:: follows -> follows = false; hand_over(p, t, (p + 1) % PROCESSORS)
		:: else
		fi;
#endif
		atomic { t = next; next = 0; mail = 0 }
	:: else -> break
	od
}

inline uproc__done(p, t)
{
	atomic {
		mail = u_mail[t];
		assert(posted[t] == taken[t] + u_tokens[t] + mail / MAIL_TOKEN);
		u_tokens[t] = UPROC_ENDED;
		p_count[p]--;
		u_mail[t] = mail | MAIL_ENDED
	}
	if
#ifdef BREAK_SETTLE_AT_ONCE
	:: true -> settle(p, t)
#else
	:: mail == 0 -> settle(p, t)
	:: else
#endif
	fi;
	mail = 0
}

/* Processor `by' makes a freed record a thread of processor `on'. */
inline uproc_start(t, on, by)
{
	atomic {
		freed[t] && starts > 0 ->
		starts--;
		freed[t] = false;
		posted[t] = 0;
		taken[t] = 0;
		cancelled[t] = false;
		to_cancel[t] = false;
		left[t] = ACTIONS;
		uproc_of[t] = (on == by -> on : MOVING);
		held[t] = uproc_of[t];
		p_count[on]++;
		u_tokens[t] = 0;
		if
		:: re_joiner[t] = 0
		:: re_joiner[t] = DETACHED
		fi
	}
	if
	:: on == by -> atomic { u_mail[t] = 0; uproc_push(on, t) }
	:: else -> u_mail[t] = MAIL_START; push_to(t, on)
	fi
}

/* The first part of a join of u, and the part after the wait. */
inline join_begin(t, u)
{
	claim(u, t);
	atomic {
		if
		:: rc == 0 ->
			had[t] = u_tokens[t];
			u_tokens[t] = UPROC_JOINING;
			joined[t] = u;
			p_intent = UPROC_WAIT;
			blocks = true
		:: rc == 1 -> put_record(u)
		:: else
		fi
	}
}

inline join_goes_on(t)
{
	atomic {
		mail = u_tokens[t];
		assert(mail & UPROC_NEWS);
		u_tokens[t] = had[t] + (mail & UPROC_TOKENS);
		had[t] = 0;
		if
		:: mail & UPROC_JOINED ->
			assert(re_joiner[joined[t]] == TAKEN);
			put_record(joined[t]);
			joined[t] = 0
#ifdef BREAK_GIVE_UP_WITHOUT_CAS
		:: else -> re_joiner[joined[t]] = 0; joined[t] = 0
#else
		:: !(mail & UPROC_JOINED) && re_joiner[joined[t]] == t ->
			re_joiner[joined[t]] = 0;
			joined[t] = 0
		:: else ->                      /* news is on its way */
			had[t] = u_tokens[t];
			u_tokens[t] = UPROC_JOINING;
			p_intent = UPROC_WAIT;
			blocks = true
#endif
		fi;
		mail = 0
	}
}

/* By a thread: sends mail only to threads of other processors. */
inline rr_wake(p, u)
{
	if
	:: uproc_of[u] != p -> uproc_post(u, MAIL_TOKEN)
	:: atomic { uproc_of[u] == p ->
		assert(freed[u] || held[u] == p);
		if
		:: u_tokens[u] == UPROC_ENDED
		:: u_tokens[u] == UPROC_WAITING ->
			u_tokens[u] = 0;
			posted[u]++;
			taken[u]++;
			uproc_push(p, u)
		:: else -> u_tokens[u]++; posted[u]++
		fi
	   }
	fi
}

/* A thread does one of its actions. Not atomic as a whole. */
inline act(p, t)
{
	atomic { left[t]--; select(u : 1 .. RECORDS) }
	if
	:: atomic { u == t && u_tokens[t] > 0 ->                        /* rr_wait() */
		u_tokens[t]--; taken[t]++ }
	:: atomic { u == t && u_tokens[t] == 0 ->
		u_tokens[t] = UPROC_WAITING; p_intent = UPROC_WAIT; blocks = true }
	:: atomic { u == t -> blocks = true }                   /* ustack_block() */
	:: atomic { u == t -> p_intent = UPROC_YIELD; blocks = true }
	:: !freed[u] -> rr_wake(p, u)
	:: u != t && !freed[u] -> join_begin(t, u)
	:: !freed[u] && re_joiner[u] != DETACHED ->
		claim(u, DETACHED);
		if
		:: atomic { rc == 1 -> put_record(u) }
		:: else
		fi
	:: uproc_start(u, p, p)
	:: uproc_start(u, other, p)
	:: freed[u]
	fi;
	atomic { u = 0; rc = 0 }
}

/* The deadline of a join, on the thread's processor: join_until() in ustack_join.c. */
inline interrupt(p, t)
{
	atomic {
		uproc_of[t] == p && joins(t) && interrupts > 0 ->
		interrupts--;
		deliver(p, t, MAIL_DEADLOCK)
	}
}

#if MOVES
/* `p' gives its oldest thread. */
inline give(p, to)
{
	atomic {
		moves > 0 && nempty(p_queue[p]) ->
		moves--;
		make_place(to);
		p_queue[p] ? t;
		in_queue[t] = false
	}
	hand_over(p, t, to);
	t = 0
}
#endif

/* The mail comes first: from then on no other processor pushes the thread. */
inline hand_over(p, t, to)
{
#ifdef BREAK_MOVE_NAMES_FIRST
	atomic { uproc_of[t] = MOVING; held[t] = MOVING };
#endif
	atomic {
		if
#ifdef BREAK_MOVE_JOINING
		:: u_mail[t] == 0 ->
#else
#ifdef BREAK_MOVE_WITH_MAIL
		:: u_tokens[t] >= 0 ->
#else
		:: u_mail[t] == 0 && u_tokens[t] >= 0 ->
#endif
#endif
			u_mail[t] = u_mail[t] | MAIL_MOVED;
			told = true
		:: else                                 /* it stays */
		fi
	}
	if
	:: told ->
#ifdef BREAK_MOVE_GIVES_NAME
		atomic { uproc_of[t] = to; held[t] = MOVING };
#else
		atomic { uproc_of[t] = MOVING; held[t] = MOVING };
#endif
#ifndef BREAK_MOVE_KEEPS_PLACE
		p_count[p]--;
#endif
		push_to(t, to)
	:: else ->
		atomic {
			uproc_of[t] = p;
			held[t] = p;
			uproc_push(p, t);
#ifndef BREAK_MOVE_NO_PLACE
			p_count[to]--
#endif
		}
	fi;
	told = false
}

/* uproc_next(), and a run of the thread that it returns. */
proctype processor(byte p)
{
	byte self, t, u, next, oldest, joiner, i, more, p_intent, rc;
	byte other = PROCESSORS - 1 - p;
	byte at;
	short mail, old;
	bool told, blocks, follows;

next_thread:
	if
	:: p_inbox[p] != 0 -> uproc_drain(p)
	:: p_inbox[p] == 0
	fi;
#if MOVES
	if
	:: give(p, (p + 1) % PROCESSORS)
#if PROCESSORS > 2
	:: give(p, (p + 2) % PROCESSORS)
#endif
	:: true
	fi;
#endif
	atomic {
		if
		:: self && p_intent == UPROC_YIELD -> uproc_push(p, self)
		:: self && p_intent == UPROC_BLOCK ->
			u_tokens[self]--;
			blocks = u_tokens[self] < 0;
			taken[self] = taken[self] + !blocks
		:: else
		fi;
		p_intent = UPROC_BLOCK;
		if
		:: self && !blocks -> goto running
		:: else -> self = 0; blocks = false
		fi
	}
end_idle:
	if
	:: atomic { nempty(p_queue[p]) -> p_queue[p] ? self; in_queue[self] = false }
	:: empty(p_queue[p]) && p_inbox[p] != 0 -> goto next_thread
	:: interrupt(p, 1); goto next_thread
	:: interrupt(p, RECORDS); goto next_thread
	fi;
	if
	:: joined[self] -> join_goes_on(self)
	:: else
	fi;
running:
	do
	:: blocks -> goto next_thread
	:: !blocks && left[self] > 0 -> act(p, self)
	:: !blocks && left[self] == 0 -> break
	od;
	uproc__done(p, self);
	self = 0;
	goto next_thread
}

/* rr_join() from outside: uproc_join.c. With `deadline' it may give up. */
inline native_join(n, t)
{
	lock(r_lock);
	claim(t, NATIVE);
	if
	:: rc == 0 ->
		atomic { r_joining++; awaited[n] = t; timely = true };
		do
		:: atomic { re_joiner[t] == TAKEN -> rc = 1 } break
		:: atomic { re_joiner[t] != TAKEN && !timely ->
#ifdef BREAK_NATIVE_LEAVES_NAME
			r_joining--
#else
			r_joining--; re_joiner[t] = 0
#endif
		   } break
		:: atomic { re_joiner[t] != TAKEN && timely ->
			r_changed[n] = false; r_lock = false }
end_join:
			if
			:: r_changed[n]
			:: deadline -> timely = false
			fi;
			lock(r_lock)
		od
	:: else
	fi;
	atomic {
		if
		:: rc == 1 -> put_record(t)
		:: else
		fi;
		awaited[n] = 0;
		timely = false;
		deadline = false;
		r_lock = false
	}
}

proctype native(byte n)
{
	byte t, rc;
	byte more = NATIVE_ACTIONS;
	byte at;
	short old;
	bool timely, deadline;

	do
	:: more > 0 ->
		atomic { more--; select(t : 1 .. RECORDS) }
		if
		:: uproc_post(t, MAIL_TOKEN)
		:: uproc_post(t, MAIL_CANCEL)
		:: uproc_start(t, 0, PROCESSORS)
		:: deadline = true; native_join(n, t)
		:: native_join(n, t)
		fi;
		atomic { t = 0; rc = 0 }
	:: more == 0 -> break
	od
}

init
{
	byte i;

	atomic {
		for (i : 1 .. RECORDS) {        /* with mail that starts it */
			uproc_of[i] = MOVING;
			held[i] = MOVING;
			p_count[i % PROCESSORS]++;
			u_mail[i] = MAIL_START;
			re_next[i] = p_inbox[i % PROCESSORS];
			p_inbox[i % PROCESSORS] = i;
			in_inbox[i] = true;
			left[i] = ACTIONS
		}
		for (i : 0 .. PROCESSORS - 1) { run processor(i) }
		for (i : 0 .. NATIVES - 1) { run native(i) }
	}
	timeout ->                              /* no process can go on */
	d_step {
		assert(!r_lock);
		for (i : 0 .. PROCESSORS - 1) {
			assert(p_inbox[i] == 0 && empty(p_queue[i]))
		}
		for (i : 1 .. RECORDS) {
			if
			:: freed[i] -> assert(u_mail[i] == MAIL_ENDED)
			:: !freed[i] && u_tokens[i] == UPROC_ENDED ->
				assert(u_mail[i] == MAIL_ENDED && re_joiner[i] == ENDED)
			:: !freed[i] && u_tokens[i] == UPROC_WAITING ->
				assert(u_mail[i] == 0 && posted[i] == taken[i])
			:: else ->
				assert(u_mail[i] == 0 && joins(i));
				assert(posted[i] == taken[i] + had[i]
					+ (u_tokens[i] & UPROC_TOKENS));
				assert(re_joiner[joined[i]] == i);
				assert(u_tokens[joined[i]] != UPROC_ENDED)
			fi;
			assert(freed[i] || to_cancel[i] == cancelled[i]
				|| u_tokens[i] == UPROC_ENDED);
			assert(freed[i] || uproc_of[i] != MOVING);
			if
			:: !freed[i] && u_tokens[i] != UPROC_ENDED -> p_count[uproc_of[i]]--
			:: else
			fi
		}
		for (i : 0 .. PROCESSORS - 1) { assert(p_count[i] == 0) }
		for (i : 0 .. NATIVES - 1) {
			assert(awaited[i] == 0 || u_tokens[awaited[i]] != UPROC_ENDED);
			r_joining = r_joining - (awaited[i] != 0)
		}
		assert(r_joining == 0)
	}
}
