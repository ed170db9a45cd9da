/* SPDX-License-Identifier: MIT */
/*
 * wait.pml: the waiters of uwait.c, and the mutex of usync.c.
 *
 * THREADS threads, each alone on a processor, and NATIVES native threads lock and unlock
 * a mutex, with a deadline or without, ROUNDS times. Then they end, with their waiters.
 * The last owner of the mutex may free it, if no other user will lock it. Meanwhile one
 * thread may be cancelled, and threads get tokens that do not belong to the mutex: all of
 * these must be left at the end. An unlock hands over to the first waiter, as on one
 * processor, or wakes it, and others may overtake it, up to OVERTAKES times. A thread may
 * wait awake at first, as those that wait for channels do: uwait__linger() gives that up at
 * any time.
 *
 * mail.pml shows how tokens get to another processor. Here it is one step.
 *
 * Searches of tests/scripts/model.sh:
 *   short: -DNATIVES=0
 *   short: -DCANCELS=0 -DTHREADS=1
 *   long: -DTOKENS=1
 *   long: -DTHREADS=3 -DNATIVES=0
 *   BREAK_AGAIN_WITHOUT_WAITED: -DTOKENS=0
 *   BREAK_CLAIM_WITHOUT_CAS: -DTOKENS=1
 *   BREAK_FINISH_WITHOUT_LOCK: -DTHREADS=1
 *   BREAK_FREE_UNDER_LOCK: -DTOKENS=1
 *   BREAK_GIVING_WAKES: -DNATIVES=0
 *   BREAK_IDLE_BEFORE_WAKE: -DTOKENS=1
 *   BREAK_LINGER_NOT_UNTIL_IDLE: -DNATIVES=0
 *   BREAK_LINGER_WITHOUT_CAS: -DNATIVES=0
 *   BREAK_NODE_LEFT: -DTOKENS=1
 *   BREAK_NOT_GIVEN_BACK: -DTOKENS=1
 *   BREAK_NOT_KEPT: -DTHREADS=1 -DROUNDS=3 -DTOKENS=0
 *   BREAK_NOT_UNTIL_IDLE: -DTOKENS=1
 *   BREAK_NO_WAITED: -DTOKENS=1
 *   BREAK_WAITED_LOST: -DTOKENS=1
 *   BREAK_WITHDRAW_WITHOUT_CAS: -DTHREADS=1
 *   BREAK_WOKEN_LEFT: -DTOKENS=0
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef NATIVES
#define NATIVES 1
#endif
#ifndef ROUNDS
#define ROUNDS  1
#endif
#ifndef TOKENS
#define TOKENS  1               /* that do not belong to the mutex */
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef OVERTAKES
#define OVERTAKES 1
#endif
#define USERS   (THREADS + NATIVES)

#define is_native(w) ((w) >= THREADS)

/* w_state */
#define IDLE    0
#define WAITING 1
#define WAKING  2
#define AWAKE   3
#define GIVING  4

/* w_result */
#define ETIMEDOUT 1
#define ECANCELED 2
#define AGAIN     3

/* m_owner: these bits, and a name or KEPT */
#define WAITED  1
#define WOKEN   2
#define KEPT    4
#define name(w) (8 * ((w) + 1))
#define is_free(owner) ((owner) < 4)

/* Waiters; n_...: of native threads. */
byte w_state[USERS];
byte w_result[USERS];
bool wn_lock[USERS];
bool wn_polls[USERS];
bool n_asleep[USERS];
bool v_interrupt[USERS];

byte tokens[USERS];
bool u_cancelled[USERS];
byte cancels = CANCELS;

/* The mutex. */
byte m_owner;
bool m_lock;
byte m_queue[USERS];
byte m_count;
byte m_passed;
bool w_tag[USERS];

/* For checks. */
bool freed[USERS];              /* the waiter, and its thread */
bool m_freed;
byte holders;
byte overtaken;                 /* the waiter on its way */
byte others[USERS];             /* tokens that do not belong to the mutex */
byte asking = USERS;            /* users that will lock the mutex */

inline uwait_lock()
{
	atomic { !m_lock -> assert(!m_freed); m_lock = true }
}

inline uwait_unlock()
{
	atomic { assert(m_lock && !m_freed); m_lock = false }
}

inline uwait_begin(w)
{
	assert(w_state[w] == IDLE);
	w_state[w] = WAITING
}

inline uwait__begin_awake(w)
{
	assert(w_state[w] == IDLE);
	w_state[w] = AWAKE
}

inline uwait_claim(w)
{
#ifdef BREAK_CLAIM_WITHOUT_CAS
	claimed = w_state[w] == WAITING || w_state[w] == AWAKE;
	if
	:: claimed -> w_state[w] = (w_state[w] == AWAKE -> GIVING : WAKING)
	:: else
	fi
#else
	atomic {
		assert(!freed[w]);
		claimed = w_state[w] == WAITING || w_state[w] == AWAKE;
		if
		:: claimed -> w_state[w] = (w_state[w] == AWAKE -> GIVING : WAKING)
		:: else
		fi
	}
#endif
}

#ifdef BREAK_GIVING_WAKES
#define WAKES(w) true
#else
#define WAKES(w) (w_state[w] == WAKING)
#endif

inline uwait_finish(w, result)
{
	atomic { assert(!freed[w]); w_result[w] = result };
	if
#ifndef BREAK_GIVING_WAKES
	:: w_state[w] == GIVING ->
		atomic { assert(!freed[w]); w_state[w] = IDLE }
#endif
	:: !is_native(w) && WAKES(w) ->
#ifdef BREAK_IDLE_BEFORE_WAKE
		atomic { assert(!freed[w]); w_state[w] = IDLE };
		atomic { assert(!freed[w]); tokens[w]++ }
#else
		atomic { assert(!freed[w]); tokens[w]++ };
		atomic { assert(!freed[w]); w_state[w] = IDLE }
#endif
	:: is_native(w) ->
#ifdef BREAK_FINISH_WITHOUT_LOCK
		atomic { assert(!freed[w]); w_state[w] = IDLE };
#else
		atomic { !wn_lock[w] -> assert(!freed[w]); wn_lock[w] = true };
		w_state[w] = IDLE;
#endif
		atomic {
			assert(!freed[w]);
			if
			:: wn_polls[w] -> v_interrupt[w] = true
			:: else -> n_asleep[w] = false
			fi
		};
#ifndef BREAK_FINISH_WITHOUT_LOCK
		atomic { assert(!freed[w]); wn_lock[w] = false }
#endif
	fi
}

/* On its native thread: its deadline has come, or it was cancelled. */
inline end_wait(w, result)
{
	uwait_claim(w);
	if
	:: claimed -> uwait_finish(w, result)
	:: else
	fi
}

/* awake: the wait was granted meanwhile, and is over. */
inline uwait__linger(w)
{
#ifdef BREAK_LINGER_WITHOUT_CAS
	awake = w_state[w] != AWAKE;
	if
	:: !awake -> w_state[w] = WAITING
	:: else
	fi;
#else
	atomic {
		awake = w_state[w] != AWAKE;
		if
		:: !awake -> w_state[w] = WAITING
		:: else
		fi
	};
#endif
#ifndef BREAK_LINGER_NOT_UNTIL_IDLE
	if
	:: awake -> (w_state[w] == IDLE)
	:: else
	fi
#endif
}

inline block_thread(w)
{
	blocks = 0;
	do
	:: if                                           /* ustack_block() */
	   :: atomic { tokens[w] > 0 -> tokens[w]--; blocks++ }
		if
		:: deadline -> end_wait(w, ETIMEDOUT)
		:: true
		fi;
#ifdef BREAK_NOT_UNTIL_IDLE
		if
		:: w_state[w] != WAITING -> break
		:: else
		fi
#else
		if
		:: w_state[w] != WAITING -> (w_state[w] == IDLE); break
		:: else
		fi
#endif
	   :: atomic { w_state[w] == WAITING && deadline -> deadline = false }
		end_wait(w, ETIMEDOUT)
	   :: atomic { w_state[w] == WAITING && cancels > 0 ->
		cancels--;
		u_cancelled[w] = true
	   }
		end_wait(w, ECANCELED)
	   fi
	od;
#ifndef BREAK_NOT_GIVEN_BACK
	atomic { tokens[w] = tokens[w] + blocks - 1 };
#endif
	blocks = 0
}

inline block_native(w)
{
	atomic { !wn_lock[w] -> wn_lock[w] = true };
	do
	:: w_state[w] == IDLE -> break
	:: w_state[w] != IDLE ->
		if
		:: wn_polls[w] ->
			wn_lock[w] = false;
			if
			:: atomic { v_interrupt[w] -> v_interrupt[w] = false }
			:: deadline -> late = true
			fi
		:: !wn_polls[w] ->
			atomic { n_asleep[w] = true; wn_lock[w] = false };
			if
			:: !n_asleep[w]
			:: deadline -> late = true
			fi
		fi;
		atomic { !wn_lock[w] -> wn_lock[w] = true };
		if
		:: late ->
			atomic {                        /* uwait_withdraw() */
				if
#ifdef BREAK_WITHDRAW_WITHOUT_CAS
				:: true -> w_state[w] = IDLE; w_result[w] = ETIMEDOUT
#else
				:: w_state[w] == WAITING ->
					w_state[w] = IDLE;
					w_result[w] = ETIMEDOUT
				:: else
#endif
				fi
			}
		:: else
		fi
	od;
	atomic { wn_lock[w] = false; n_asleep[w] = false; late = false }
}

inline uwait_push(w)
{
	d_step { m_queue[m_count] = w; m_count++ }
}

inline push_first(w)
{
	d_step {
		i = m_count;
		do
		:: i > 0 -> m_queue[i] = m_queue[i - 1]; i--
		:: else -> break
		od;
		m_queue[0] = w;
		m_count++
	}
}

inline uwait_remove(w)
{
	d_step {
		i = 0;
		do
		:: i < m_count && m_queue[i] != w -> i++
		:: else -> break
		od;
		if
		:: i < m_count ->
			m_count--;
			do
			:: i < m_count -> m_queue[i] = m_queue[i + 1]; i++
			:: else -> break
			od;
			m_queue[m_count] = 0
		:: else
		fi;
		i = 0
	}
}

/* n: the claimed waiter, or USERS. */
inline uwait_pop()
{
	n = USERS;
	do
	:: m_count == 0 -> break
	:: m_count > 0 ->
		n = m_queue[0];
		uwait_remove(n);
		uwait_claim(n);
		if
		:: claimed -> break
		:: else -> n = USERS
		fi
	od;
	claimed = false
}

inline count_overtake()
{
	if
	:: owner & WOKEN ->
		overtaken++;
		assert(overtaken <= OVERTAKES)
	:: else
	fi
}

inline arrive(w)
{
	assert(!m_freed);
	owner = m_owner;
	if
	:: is_free(owner) || (owner & KEPT) ->
		m_owner = name(w) | (owner & WAITED);
		m_passed = 0;
		w_result[w] = 0
	:: else
	fi
}

/* anew: it waits once more; else w_result says whether it has the mutex. */
inline again(w)
{
	atomic { arrive(w) };
	if
	:: w_result[w] == AGAIN ->
		uwait_lock();
		atomic {
			arrive(w);
			if
			:: w_result[w] == AGAIN ->
#ifdef BREAK_AGAIN_WITHOUT_WAITED
				m_owner = owner & ~WOKEN
#elif defined(BREAK_WOKEN_LEFT)
				m_owner = owner | WAITED
#else
				m_owner = (owner | WAITED) & ~WOKEN
#endif
			:: else
			fi
		};
		if
		:: w_result[w] == AGAIN && u_cancelled[w] -> w_result[w] = ECANCELED
		:: w_result[w] == AGAIN && !u_cancelled[w] ->
			w_tag[w] = true;
			anew = true;
			uwait_begin(w);
			push_first(w)
		:: else
		fi;
		uwait_unlock()
	:: else
	fi
}

/* w_result: whether the mutex was given to it. */
inline usync_mutex_lock(w)
{
	atomic {
		assert(!m_freed);
		owner = m_owner;
		w_result[w] = 0;
		if
		:: is_free(owner) ->                    /* overtake() */
			m_owner = owner | name(w);
			count_overtake()
		:: else
		fi
	}
	if
	:: is_free(owner)
	:: !is_free(owner) && u_cancelled[w] -> w_result[w] = ECANCELED
	:: !is_free(owner) && !u_cancelled[w] ->
		uwait_lock();
		atomic {
			assert(!m_freed);
			owner = m_owner;
			if
			:: is_free(owner) ->
				m_owner = owner | name(w);
				count_overtake()
#ifdef BREAK_NO_WAITED
			:: else
#else
			:: else -> m_owner = owner | WAITED
#endif
			fi
		}
		if
		:: !is_free(owner) ->                   /* queue_up() */
			w_tag[w] = false;
			if
			:: uwait_begin(w)
			:: !is_native(w) -> uwait__begin_awake(w); awake = true
			fi;
			uwait_push(w);
			uwait_unlock();
			if
			:: awake -> uwait__linger(w)
			:: else
			fi;
			do
			:: if
			   :: is_native(w) -> block_native(w)
			   :: !is_native(w) && !awake -> block_thread(w)
			   :: awake -> awake = false
			   fi;
			   if
			   :: w_result[w] != AGAIN -> break
			   :: else -> again(w)
			   fi;
			   if
			   :: !anew -> break
			   :: else -> anew = false
			   fi
			od;
#ifndef BREAK_NODE_LEFT
			if
			:: w_result[w] -> uwait_lock(); uwait_remove(w); uwait_unlock()
			:: else
			fi
#endif
		:: else -> uwait_unlock()
		fi
	fi;
	owner = 0
}

/* n: the waiter to be finished, with AGAIN if it is far, or USERS. */
inline usync_mutex_unlock(w)
{
	n = USERS;
	do
	:: atomic {
		assert(!m_freed);
		owner = m_owner;
		if
		:: owner == name(w) -> m_owner = 0; break
		:: owner == (name(w) | WAITED)
		:: else ->
			assert((owner & ~(WAITED | WOKEN)) == name(w));
#ifdef BREAK_NOT_KEPT
			m_owner = owner & (WAITED | WOKEN);
#else
			m_owner = (m_passed >= OVERTAKES -> KEPT | (owner & WAITED)
				   : owner & (WAITED | WOKEN));
#endif
			m_passed++;
			break
		fi
	   }
		uwait_lock();                           /* pass_mutex() */
		uwait_pop();
		if
		:: n < USERS && !w_tag[n] -> far = true
		:: far = false
		fi;
		atomic {
			if
			:: n < USERS -> m_passed = far; overtaken = 0
			:: else
			fi;
			owner = (n == USERS -> name(w) : (far -> WOKEN : name(n)));
#ifdef BREAK_WAITED_LOST
			m_owner = owner;
#elif defined(BREAK_FREE_UNDER_LOCK)
			m_owner = (n < USERS -> owner | (m_count > 0) : 0);
#else
			m_owner = owner | (m_count > 0);
#endif
		}
		uwait_unlock();
#ifdef BREAK_FREE_UNDER_LOCK
		break
#else
		if
		:: n < USERS -> break
		:: else
		fi
#endif
	od;
	if
	:: n < USERS && far -> uwait_finish(n, AGAIN)
	:: n < USERS && !far -> uwait_finish(n, 0)
	:: else
	fi;
	atomic { n = 0; owner = 0; far = false }
}

proctype user(byte w)
{
	byte owner, blocks, i, n;
	byte more = ROUNDS;
	bool deadline, claimed, late, far, anew, awake;

	do
	:: more == 0 -> break
	:: more > 0 ->
		atomic {
			more--;
			if
			:: deadline = true
			:: deadline = false
			fi;
			if
			:: is_native(w) -> wn_polls[w] = true
			:: wn_polls[w] = false
			fi
		}
		usync_mutex_lock(w);
		atomic {
			asking = asking - (more == 0);
			deadline = false;
			holders = holders + !w_result[w];
			assert(holders <= 1 && w_state[w] == IDLE)
		}
		if
		:: w_result[w] == 0 ->
			if
			:: atomic { asking == 0 && m_count == 0 ->
				m_freed = true;
				holders--
			   }
			:: atomic { true -> holders-- } usync_mutex_unlock(w)
			fi
		:: else
		fi
	od;
	atomic {                                        /* its waiter is freed */
		assert(tokens[w] == others[w] && w_state[w] == IDLE && !wn_lock[w]);
		freed[w] = true
	}
}

init
{
	byte w, more;

	atomic {
		for (w : 0 .. USERS - 1) { run user(w) }
		more = TOKENS
	}
	do
	:: more > 0 ->
		atomic {
			more--;
			select(w : 0 .. THREADS - 1);
			if
			:: freed[w]
			:: !freed[w] -> tokens[w]++; others[w]++
			fi
		}
	:: more == 0 -> break
	od
}
