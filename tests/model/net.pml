/* SPDX-License-Identifier: MIT */
/*
 * net.pml: waits, uses and closes of a descriptor, and the reuse of its number:
 * unet.c and unet_wait.c, and the use of epoll in uevents.c.
 *
 * Each user has an epoll set, and a processor or a native thread. The users do anything
 * in any order, ACTIONS times together: read, poll, close, or, when the number is free,
 * get it from the system, for a file that the library has made, or one that the first call
 * adopts. With CLOSES=0 they read and poll only. A call is for the file that was open
 * when it began. Bytes may come, and deadlines, at any time.
 *
 * READERS users at a time read or poll a file. They wait in d_queue, and pass a turn on.
 *
 * Files are 1, 2, ...; 0 is none. wait.pml shows how waits end; here it is one step.
 *
 * Searches of tests/scripts/model.sh:
 *   short: -DACTIONS=3 -DREADERS=1
 *   short: -DACTIONS=2
 *   short: -DACTIONS=2 -DBYTES=2 -DCLOSES=0 -DALL=0 -DPOLLS=0
 *   long: -DACTIONS=2 -DBYTES=2 -DCLOSES=0 -DALL=0
 *   long: -DACTIONS=4 -DREADERS=1
 *   long: -DACTIONS=4 -DREADERS=1 -DTHREADS=2 -DNATIVES=0
 *   long: -DACTIONS=3 -DREADERS=1 -DTHREADS=2
 *   long: -DACTIONS=3 -DREADERS=1 -DTHREADS=3 -DNATIVES=0
 *   BREAK_ADOPT_OUTSIDE: -DACTIONS=3 -DREADERS=1
 *   BREAK_NO_PASS: -DACTIONS=2 -DBYTES=2 -DCLOSES=0
 *   BREAK_CLOSE_AT_ONCE: -DACTIONS=3 -DREADERS=1
 *   BREAK_CLOSING_TRUSTED: -DACTIONS=3 -DREADERS=1
 *   BREAK_ENTER_LATE: -DACTIONS=3 -DREADERS=1
 *   BREAK_ERROR_KEEPS: -DACTIONS=2 -DBYTES=2 -DCLOSES=0
 *   BREAK_FORGET_OUTSIDE: -DACTIONS=4 -DREADERS=1
 *   BREAK_GENERATION_AGAIN: -DACTIONS=3 -DREADERS=1
 *   BREAK_INSIDE_UNSEEN: -DACTIONS=2 -DCLOSES=0
 *   BREAK_NEW_ALWAYS: -DACTIONS=3 -DREADERS=1
 *   BREAK_NO_INTERRUPT: -DACTIONS=3 -DREADERS=1
 *   BREAK_NO_TURN: -DACTIONS=2 -DBYTES=2 -DCLOSES=0
 *   BREAK_POLL_OUTSIDE: -DACTIONS=3 -DREADERS=1
 *   BREAK_READY_AFTER_CALL: -DACTIONS=3 -DREADERS=1
 *   BREAK_SAME_GENERATION: -DACTIONS=3 -DREADERS=1
 *   BREAK_SERIAL_KEPT: -DACTIONS=4 -DREADERS=1
 *   BREAK_TURN_KEPT: -DACTIONS=3
 *   BREAK_TURN_TWICE: -DACTIONS=3 -DBYTES=2 -DCLOSES=0 -DPOLLS=0 -DTHREADS=3 -DNATIVES=0
 *   BREAK_TURN_WAITS: -DACTIONS=2 -DBYTES=2 -DCLOSES=0
 *   BREAK_UNWATCH_OWN: -DACTIONS=3 -DBYTES=2 -DREADERS=1
 *   BREAK_WAITER_LEFT: -DACTIONS=3 -DREADERS=1
 *   BREAK_WATCH_CLOSED: -DACTIONS=3 -DREADERS=1
 */
#ifndef THREADS
#define THREADS 1               /* each alone on a processor */
#endif
#ifndef NATIVES
#define NATIVES 1
#endif
#ifndef ACTIONS
#define ACTIONS 4               /* of all users */
#endif
#ifndef FILES
#define FILES   2               /* that have the number, one after the other */
#endif
#ifndef BYTES
#define BYTES   1               /* that come for its user */
#endif
#ifndef CLOSES
#define CLOSES  1               /* also new files, and files to adopt */
#endif
#ifndef POLLS
#define POLLS   1               /* calls that poll */
#endif
#ifndef ALL
#define ALL     1               /* calls that read twice */
#endif
#define USERS   (THREADS + NATIVES)
#define NO_USER USERS
#ifndef READERS
#define READERS USERS           /* of a file at a time */
#endif

/* d_kind; that of a file is its number */
#define NEW     0
#define CLOSING (FILES + 1)

/* w_state */
#define IDLE    0
#define WAITING 1
#define WAKING  2

/* w_result, rc */
#define READY     0
#define CLOSED    1
#define ETIMEDOUT 2
#define EBADF     3
#define TURN      4

/* d_turn */
#define NONE    0
#define GIVEN   1
#define RUNNING 2

/* The system: the file of the number; the state of each file. */
byte file = 1;
byte files = 1;
byte bytes[FILES + 1];
bool nonblock[FILES + 1];
bool given[FILES + 1];          /* to a user: calls may begin */
bool made[FILES + 1];           /* by the library: none adopts it */
bool closing[FILES + 1];        /* or closed: no call may begin */
byte readers[FILES + 1];        /* that read or poll it */
byte left = BYTES;              /* to come */
byte actions = ACTIONS;
byte begun;                     /* threads that have acted, or never will */

/* The epoll set of each user: bits of registered files, and their edges. */
byte v_watched[USERS];
byte v_ready[USERS];
bool v_interrupt[USERS];

/* The descriptor. */
bool d_lock;
bool d_ready;
byte d_generation;
byte d_inside;
byte d_kind;
chan d_queue = [USERS] of { byte };     /* d_first */
byte d_turn;
byte d_serial = NO_USER;

/* Waiters. */
byte w_state[USERS];
byte w_result[USERS];
bool w_polls[USERS];            /* in the queue: it is marked */
bool freed[USERS];

/* The user has read d_inside, and no system call has begun since. */
bool calm[USERS];

/* Threads are alike: of those that have not acted yet, the first is next. */
#define is_next(u)  (u >= THREADS || u <= begun)
#define may_act(u)  (actions > 0 && is_next(u))

/* The user has the number, and it is not being closed. */
#define may_call(u) (may_act(u) && file && given[file] && !closing[file])

inline act(u)
{
	actions--;
	begun = begun + (u == begun)
}

inline uwait_claim(w)
{
	assert(!freed[w]);
	claimed = w_state[w] == WAITING;
	if
	:: claimed -> w_state[w] = WAKING
	:: else
	fi
}

/* The claimed waiters: those in `others' get this result, `taker' has its own. */
inline tell(result)
{
	atomic {
		for (i : 0 .. USERS - 1) {
			if
			:: others & (1 << i) || taker == i ->
				assert(!freed[i] && w_state[i] == WAKING);
				w_result[i] = (taker == i -> taken : result);
				w_state[i] = IDLE;
#ifndef BREAK_NO_INTERRUPT
				v_interrupt[i] = true
#endif
			:: else
			fi
		}
		i = 0;
		others = 0;
		taker = NO_USER;
		taken = READY
	}
}

/* In atomic, under d_lock: polls, and the first of others, which may get the turn. */
inline wake_first()
{
	do
	:: len(d_queue) > 0 && taker == NO_USER ->
		d_queue?n;
		uwait_claim(n);
		if
		:: claimed && w_polls[n] -> others = others | (1 << n)
		:: claimed && !w_polls[n] -> taker = n
		:: else
		fi
	:: else -> break
	od;
	if
#ifdef BREAK_NO_TURN
	:: false
#else
	:: taker != NO_USER && len(d_queue) > 0 ->
		d_turn = GIVEN;
		d_ready = false;
		taken = TURN
#endif
	:: else
	fi;
	n = 0;
	claimed = false
}

/* Likewise. */
inline pass_on(useful)
{
	if
#ifndef BREAK_NO_PASS
	:: d_turn == NONE && (useful) -> wake_first()
#endif
	:: else
	fi
}

/*
 * Under d_lock, which is free afterwards. The waiters to be told go to `others'. Fields
 * that are read without the lock change one by one.
 */
inline reset(kind)
{
	atomic { !d_lock -> d_lock = true; d_kind = kind };
#ifndef BREAK_SAME_GENERATION
	d_generation++;
#endif
#ifndef BREAK_SERIAL_KEPT
	d_serial = NO_USER;
#endif
	atomic {
		d_ready = true;
#ifndef BREAK_TURN_KEPT
		d_turn = NONE;
#endif
		do
		:: len(d_queue) > 0 ->
			d_queue?n;
			uwait_claim(n);
			others = (claimed -> others | (1 << n) : others)
		:: else -> break
		od;
		n = 0;
		claimed = false;
		generation = d_generation;
		d_lock = false
	}
}

/* fresh(), or a use of the number without it. */
inline open_file(u)
{
	atomic {
		file == 0 && files < FILES && may_act(u) ->
		act(u);
		files++;
		file = files;
		f = file;
		if
		:: nonblock[f] = true; made[f] = true
		:: given[f] = true; f = 0
		fi
	}
	if
	:: f ->
		reset(f);
		tell(CLOSED);
		given[f] = true
	:: else
	fi;
	atomic { f = 0; generation = 0 }
}

inline unet_close(u)
{
	reset(CLOSING);
#ifndef BREAK_CLOSE_AT_ONCE
	d_inside == 0;
#endif
	d_step {                                        /* close(2) */
		assert(file == f);
		file = 0;
		for (i : 0 .. USERS - 1) {
			v_watched[i] = v_watched[i] & ~(1 << f);
			v_ready[i] = v_ready[i] & ~(1 << f)
		}
		i = 0
	}
	atomic {
		!d_lock ->
		if
#ifdef BREAK_NEW_ALWAYS
		:: true -> d_kind = NEW
#else
		:: d_generation == generation -> d_kind = NEW
		:: else
#endif
		fi;
		f = 0;
		generation = 0
	}
	tell(CLOSED)
}

/* inside: whether it may be used */
inline enter()
{
#ifdef BREAK_ENTER_LATE
	inside = d_generation == generation;
	if
	:: inside -> d_inside++
	:: else
	fi
#else
	d_step {
		d_inside++;
		for (i : 0 .. USERS - 1) { calm[i] = false }
		i = 0
	}
	atomic {
		inside = d_generation == generation;
		if
		:: !inside -> d_inside--
		:: else
		fi
	}
#endif
}

inline leave()
{
	atomic { d_inside--; inside = false }
}

/* With the number, for f. */
inline system_call()
{
	assert(file == f && file != 0)
}

inline adopt()
{
#ifdef BREAK_ADOPT_OUTSIDE
	atomic { d_inside++; inside = true };
#else
	enter();
#endif
	if
	:: inside ->
		atomic { system_call(); nonblock[f] = true };
		atomic {
			!d_lock ->
			if
			:: d_kind == NEW ->
				system_call();
				d_ready = true;
				d_kind = f
			:: else
			fi
		}
		leave()
	:: else -> rc = EBADF
	fi
}

/* uevents_add(), under d_lock: what is new there is reported at once. */
inline watch(u)
{
	if
	:: d_serial == u
	:: d_serial != u ->
		atomic {
			!d_lock ->
			if
#ifndef BREAK_WATCH_CLOSED
			:: d_generation != generation -> rc = EBADF
#else
			:: file != f && file == 0 -> d_serial = u
#endif
			:: else ->
				system_call();
				if
				:: bytes[f] > 0 && !(v_watched[u] & (1 << f)) ->
					v_ready[u] = v_ready[u] | (1 << f)
				:: else
				fi;
				v_watched[u] = v_watched[u] | (1 << f);
				if
				:: d_kind != CLOSING -> d_serial = u
				:: else
				fi
			fi
		}
	fi
}

/* e_poll, and ready() for its edge. */
inline poll_events(u)
{
	d_step {
		v_interrupt[u] = false;
		edge = v_ready[u] != 0;
		v_ready[u] = 0
	}
	if
	:: edge ->
		atomic {
			!d_lock ->
			d_lock = true;
			if
			:: d_turn == GIVEN
			:: else -> d_ready = true
			fi
		}
		atomic {
			if
#ifdef BREAK_TURN_TWICE
			:: d_turn != GIVEN -> wake_first()
#else
			:: d_turn == NONE -> wake_first()
#endif
			:: else
			fi;
			if
#ifdef BREAK_UNWATCH_OWN
			:: u < THREADS && len(d_queue) == 0 ->
#else
			:: (u < THREADS && len(d_queue) == 0 && d_serial != u &&
			    d_kind != NEW && d_kind != CLOSING) ->
				assert(file);
#endif
				v_watched[u] = v_watched[u] & ~(1 << file);
				v_ready[u] = v_ready[u] & ~(1 << file)
			:: else
			fi;
			edge = false;
			d_lock = false
		}
		tell(READY)
	:: else
	fi
}

inline uwait_block(u)
{
	do
	:: w_state[u] == IDLE -> break
	:: w_state[u] != IDLE ->
end_asleep:
		if
		:: v_interrupt[u] || v_ready[u] -> poll_events(u)
		:: atomic { deadline ->
			uwait_claim(u);
			if
			:: claimed -> w_state[u] = IDLE; w_result[u] = ETIMEDOUT
			:: else
			fi;
			claimed = false;
			deadline = false
		   }
		fi
	od;
	atomic { rc = w_result[u]; w_result[u] = 0 }
}

/* pull_node(), if it is there. */
inline pull(u)
{
	if
	:: d_queue??[eval(u)] -> d_queue??eval(u)
	:: else
	fi
}

/* poll_leave_one() */
inline leave_queue(u)
{
	atomic { !d_lock -> pull(u); w_polls[u] = false }
}

/* After a wait whose result is not READY, or with the turn if no wait began. */
inline end_wait(u)
{
	if
	:: rc == CLOSED -> rc = EBADF; turn = false
	:: else ->
		atomic {
			!d_lock ->
			if
			:: d_generation != generation -> turn = false
			:: d_generation == generation && rc == TURN ->
				assert(d_turn == (turn -> RUNNING : GIVEN));
				turn = true;
				d_turn = RUNNING;
				d_ready = true
			:: d_generation == generation && rc != TURN && turn ->
				d_turn = NONE;
#ifndef BREAK_ERROR_KEEPS
				pass_on(d_ready);
#endif
				turn = false
			:: else ->
#ifndef BREAK_WAITER_LEFT
				pull(u)
#endif
			fi
		}
		tell(READY);
		rc = (rc == TURN -> 0 : rc)
	fi
}

/* The call has ended. */
inline end_turn()
{
	if
	:: turn ->
		atomic {
			!d_lock ->
			turn = false;
			if
			:: d_generation == generation ->
				assert(d_turn == RUNNING);
				d_turn = NONE;
				pass_on(d_ready)
			:: else
			fi
		}
		tell(READY)
	:: else
	fi
}

/* In atomic, under d_lock: begins the wait; with the turn it is the first. */
inline push(u)
{
	w_state[u] = (polls -> w_state[u] : WAITING);
	w_polls[u] = polls;
	n = len(d_queue);
	d_queue!u;
	do
	:: turn && n > 0 -> d_queue?i; d_queue!i; n--
	:: else -> break
	od;
	n = 0;
	i = 0;
	if
	:: turn ->
#ifndef BREAK_TURN_WAITS
		d_turn = NONE;
#endif
		turn = false
	:: else
	fi;
	waits = true
}

/* is_unready() */
inline see_unready(u)
{
#ifdef BREAK_INSIDE_UNSEEN
	unready = !d_ready
#else
	calm[u] = d_inside == 0;
	unready = calm[u] && !d_ready;
	unready = unready && calm[u]
#endif
}

/* net_block(), and of a poll poll_wait(), which begins before it looks. */
inline wait_ready(u)
{
	w_state[u] = (polls -> WAITING : IDLE);
	if
	:: true -> watch(u)
	:: atomic { turn && deadline -> rc = ETIMEDOUT; deadline = false }
	fi;
	if
	:: rc == 0 ->
		atomic { !d_lock -> d_lock = true };
		if
		:: !polls -> see_unready(u)
		:: else -> unready = !d_ready
		fi;
		atomic {
			if
			:: d_generation != generation -> rc = EBADF
			:: d_generation == generation && (unready || (!polls && !turn
							  && d_turn != NONE)) ->
				push(u)
			:: else -> rc = (turn -> TURN : 0)
			fi;
			unready = false;
			calm[u] = false;
			d_lock = false
		}
	:: else
	fi;
	if
	:: atomic { polls && !waits ->                  /* uwait_withdraw() */
		waits = w_state[u] != WAITING;
		w_state[u] = (waits -> w_state[u] : IDLE);
		rc = 0
	   }
	:: else
	fi;
	if
	:: waits -> waits = false; uwait_block(u)
	:: else
	fi;
	if
	:: polls ->
		leave_queue(u);
		rc = (rc == CLOSED -> 0 : rc)
	:: !polls && (rc == CLOSED || rc == TURN || rc == ETIMEDOUT || turn) ->
		end_wait(u)
	:: else
	fi
}

inline look()
{
	atomic {
		system_call();
		assert(polls || (nonblock[f] && (d_kind == f || closing[f] || (!made[f]
			&& (d_kind == NEW || d_kind == CLOSING)))));
		got = bytes[f] > 0;
		if
		:: got && !polls -> bytes[f]--; drained = bytes[f] == 0
		:: else
		fi
	}
}

/* net_perform(), of a read, or unet_poll() for one. */
inline perform(u)
{
	if
#ifdef BREAK_CLOSING_TRUSTED
	:: d_kind == NEW -> adopt()
#else
	:: d_kind == NEW || d_kind == CLOSING -> adopt()
#endif
	:: else
	fi;
	do
	:: rc != 0 || got -> break
	:: rc == 0 && !got ->
		if
#ifdef BREAK_POLL_OUTSIDE
		:: polls -> d_ready = false; look()
		:: (d_ready || now) && !polls ->
#else
		:: d_ready || polls || now ->
#endif
#ifdef BREAK_FORGET_OUTSIDE
			d_ready = false;
#endif
			enter();
			if
			:: inside ->
#ifdef BREAK_READY_AFTER_CALL
				look();
				d_ready = got;
#else
				d_ready = false;
				look();
				if
				:: got -> d_ready = true
				:: !got || (drained && !polls)  /* of TCP */
				fi;
#endif
				leave();
				if
				:: !got && !polls && d_generation != generation ->
					rc = EBADF
				:: else
				fi
			:: else -> rc = EBADF
			fi
		:: else
		fi;
		if
		:: !got && rc == 0 && now -> rc = ETIMEDOUT
		:: !got && rc == 0 && !now ->
			wait_ready(u)
		:: else
		fi
	od;
	if
	:: polls -> d_ready = true                      /* may be ready */
	:: else
	fi
}

/* A read, a second one if `all', as in unet_read_all(), or a poll. */
inline call(u)
{
	do
	:: perform(u);
		if
		:: got && all ->
#ifdef BREAK_GENERATION_AGAIN
			if
			:: d_generation == generation -> generation = d_generation
			:: else -> rc = EBADF
			fi;
#endif
			atomic { all = false; got = false }
		:: else -> break
		fi
	od;
	end_turn()
}

proctype user(byte u)
{
	byte f, i, n, generation, rc, others, taken;
	byte taker = NO_USER;
	bool claimed, deadline, edge, got, drained, inside, all, now, polls, waits;
	bool turn, unready;

	do
	:: atomic { may_call(u) && readers[file] < READERS ->
		act(u);
		f = file;
		readers[f]++;
		generation = d_generation;
		if
		:: true
		:: deadline = true
#if POLLS
		:: polls = true
		:: polls = true; deadline = true
#endif
#if ALL
		:: all = true
#endif
#if CLOSES
		:: now = true
#elif ALL
		:: all = true; deadline = true
#endif
		fi
	   }
		call(u);
		atomic {
			assert(rc != EBADF || closing[f]);
			assert(w_state[u] == IDLE && !inside && !turn);
			assert(!d_queue??[eval(u)]);
			readers[f]--;
			deadline = false;
			now = false;
			polls = false;
			all = false;
			got = false;
			drained = false;
			generation = 0;
			f = 0;
			rc = 0
		}
#if CLOSES
	:: atomic { may_call(u) ->
		act(u);
		f = file;
		closing[f] = true                       /* the only closer */
	   }
		unet_close(u)
	:: open_file(u)
#endif
	:: u < THREADS && v_ready[u] -> poll_events(u)          /* its processor */
	:: atomic { is_next(u) -> begun = begun + (u == begun) } break
	od;
	atomic {                                        /* its waiter is freed */
		assert(taker == NO_USER);
		freed[u] = true;
		v_interrupt[u] = false
	}
	if
	:: u >= THREADS -> d_step { v_watched[u] = 0; v_ready[u] = 0 }
	:: else ->                                      /* its processor goes on */
end_processor:
		do
		:: v_ready[u] -> poll_events(u)
		od
	fi
}

/* A byte comes for the user of the number, or the end of all bytes. */
proctype system()
{
	byte i;

	do
	:: d_step {
		left > 0 && file ->
		left--;
		bytes[file]++;
		for (i : 0 .. USERS - 1) {
			v_ready[i] = v_ready[i] | (v_watched[i] & (1 << file))
		}
		i = 0
	   }
	:: left == 0 -> break
	:: true -> break
	od
}

init
{
	byte i;

	atomic {
		given[1] = true;
#if !CLOSES
		nonblock[1] = true;
		d_kind = 1;
#endif
		for (i : 0 .. USERS - 1) { run user(i) }
		run system();
		i = 0
	}
	timeout ->                              /* no process can go on */
	d_step {
		assert(!d_lock && d_inside == 0 && d_kind != CLOSING && d_turn == NONE);
		for (i : 0 .. USERS - 1) {
			assert(freed[i] || (d_queue??[eval(i)] && w_state[i] == WAITING
				&& file && !closing[file] && bytes[file] == 0))
		}
	}
}
