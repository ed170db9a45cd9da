/* SPDX-License-Identifier: MIT */
/*
 * uposix.h: POSIX threads and calls that block, over usched, for programs that were not
 * written for it.
 *
 *	cc -include usched/uposix.h ...         the program's own calls, or
 *	usched-run PROGRAM...                   all of a program, by LD_PRELOAD
 *
 * Each function is that of POSIX or of glibc with the name behind uposix_, and differs
 * where uposix(3) says so. Native threads call them, too: main() is one. An object of
 * PTHREAD_PROCESS_SHARED stays libc's.
 *
 * In C, with UPOSIX_NAMES or by -include, the plain names mean these functions.
 */
#ifndef USCHED_UPOSIX_H
#define USCHED_UPOSIX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads. */
int uposix_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg);
int uposix_pthread_join(pthread_t thread, void **result);
int uposix_pthread_tryjoin_np(pthread_t thread, void **result);
int uposix_pthread_timedjoin_np(pthread_t thread, void **result,
				const struct timespec *time);
int uposix_pthread_detach(pthread_t thread);
void uposix_pthread_exit(void *result) __attribute__((noreturn));
pthread_t uposix_pthread_self(void);
int uposix_pthread_setname_np(pthread_t thread, const char *name);
int uposix_pthread_getname_np(pthread_t thread, char *name, size_t size);
int uposix_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);
int uposix_pthread_getschedparam(pthread_t thread, int *policy,
				 struct sched_param *param);
int uposix_pthread_setschedparam(pthread_t thread, int policy,
				 const struct sched_param *param);
int uposix_pthread_setschedprio(pthread_t thread, int priority);
int uposix_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *cpus);
int uposix_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cpus);
int uposix_pthread_getcpuclockid(pthread_t thread, clockid_t *clock);
int uposix_pthread_yield(void);
int uposix_sched_yield(void);
pid_t uposix_vfork(void);
int uposix_pthread_once(pthread_once_t *once, void (*func)(void));
int uposix_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int uposix_pthread_key_delete(pthread_key_t key);
void *uposix_pthread_getspecific(pthread_key_t key);
int uposix_pthread_setspecific(pthread_key_t key, const void *value);

/* Cancellation and signals. */
int uposix_pthread_cancel(pthread_t thread);
void uposix_pthread_testcancel(void);
int uposix_pthread_setcancelstate(int state, int *old);
int uposix_pthread_setcanceltype(int type, int *old);
int uposix_pthread_kill(pthread_t thread, int sig);
int uposix_pthread_sigqueue(pthread_t thread, int sig, const union sigval value);
int uposix_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int uposix_sigprocmask(int how, const sigset_t *set, sigset_t *old);

/* What pthread_cleanup_push() of glibc calls. */
void uposix___pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unwind_next(__pthread_unwind_buf_t *buffer)
	__attribute__((noreturn));

/* Time. */
unsigned uposix_sleep(unsigned seconds);
int uposix_usleep(useconds_t microseconds);
int uposix_nanosleep(const struct timespec *time, struct timespec *rest);
int uposix_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *rest);

/* Mutexes. */
int uposix_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int uposix_pthread_mutex_destroy(pthread_mutex_t *mutex);
int uposix_pthread_mutex_lock(pthread_mutex_t *mutex);
int uposix_pthread_mutex_trylock(pthread_mutex_t *mutex);
int uposix_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time);
int uposix_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
				   const struct timespec *time);
int uposix_pthread_mutex_unlock(pthread_mutex_t *mutex);
int uposix_pthread_mutex_consistent(pthread_mutex_t *mutex);
int uposix_pthread_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ceiling);
int uposix_pthread_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *old);

/* Conditions. */
int uposix_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int uposix_pthread_cond_destroy(pthread_cond_t *cond);
int uposix_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int uposix_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *time);
int uposix_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  clockid_t clock, const struct timespec *time);
int uposix_pthread_cond_signal(pthread_cond_t *cond);
int uposix_pthread_cond_broadcast(pthread_cond_t *cond);

/* Reader-writer locks. */
int uposix_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr);
int uposix_pthread_rwlock_destroy(pthread_rwlock_t *lock);
int uposix_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int uposix_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock);
int uposix_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock,
				      const struct timespec *time);
int uposix_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
				      const struct timespec *time);
int uposix_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int uposix_pthread_rwlock_trywrlock(pthread_rwlock_t *lock);
int uposix_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock,
				      const struct timespec *time);
int uposix_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
				      const struct timespec *time);
int uposix_pthread_rwlock_unlock(pthread_rwlock_t *lock);

/* Semaphores. Those of sem_open() stay libc's. */
int uposix_sem_init(sem_t *sem, int shared, unsigned count);
int uposix_sem_destroy(sem_t *sem);
int uposix_sem_wait(sem_t *sem);
int uposix_sem_trywait(sem_t *sem);
int uposix_sem_timedwait(sem_t *sem, const struct timespec *time);
int uposix_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *time);
int uposix_sem_post(sem_t *sem);
int uposix_sem_getvalue(sem_t *sem, int *value);

/* Barriers, spin locks. */
int uposix_pthread_barrier_init(pthread_barrier_t *barrier,
				const pthread_barrierattr_t *attr, unsigned count);
int uposix_pthread_barrier_destroy(pthread_barrier_t *barrier);
int uposix_pthread_barrier_wait(pthread_barrier_t *barrier);
int uposix_pthread_spin_lock(pthread_spinlock_t *lock);

#ifdef __cplusplus
}
#endif

#ifndef UPOSIX_PLAIN
#include "uposix_define.h"
#endif

#endif /* USCHED_UPOSIX_H */
