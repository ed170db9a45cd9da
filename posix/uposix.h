/* SPDX-License-Identifier: MIT */
/*
 * uposix.h: POSIX threads and calls that block, over usched, for programs that were not
 * written for it.
 *
 *	cc -include usched/posix/uposix.h ...         the program's own calls, or
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

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

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
int uposix_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
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
int uposix_raise(int sig);
int uposix_pause(void);
int uposix_sigsuspend(const sigset_t *set);
int uposix_sigpending(sigset_t *set);

/* What pthread_cleanup_push() of glibc calls. */
void uposix___pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unwind_next(__pthread_unwind_buf_t *buffer)
	__attribute__((noreturn));

/* What thread-local variables of C++ and Rust call, at their first use. */
int uposix___cxa_thread_atexit_impl(void (*func)(void *object), void *object, void *dso);

/* The locale of a thread. */
locale_t uposix_uselocale(locale_t locale);
locale_t uposix___uselocale(locale_t locale);

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
int uposix_pthread_spin_trylock(pthread_spinlock_t *lock);

struct sembuf;
ssize_t uposix_msgrcv(int queue, void *message, size_t size, long type, int flags);
int uposix_msgsnd(int queue, const void *message, size_t size, int flags);
int uposix_semop(int set, struct sembuf *ops, size_t n);
int uposix_semtimedop(int set, struct sembuf *ops, size_t n,
		      const struct timespec *limit);

/*
 * Descriptors, processes, streams: each as the one of libc. As there, sockets take any
 * kind of address, which is an extension.
 */
#pragma GCC system_header
#define UPOSIX_LIKE(name) extern __typeof__(name) uposix_##name

UPOSIX_LIKE(open);
UPOSIX_LIKE(open64);
UPOSIX_LIKE(openat);
UPOSIX_LIKE(openat64);
UPOSIX_LIKE(creat);
UPOSIX_LIKE(creat64);
UPOSIX_LIKE(closedir);

UPOSIX_LIKE(socket);
UPOSIX_LIKE(socketpair);
UPOSIX_LIKE(pipe);
UPOSIX_LIKE(pipe2);
UPOSIX_LIKE(eventfd);
UPOSIX_LIKE(timerfd_create);
UPOSIX_LIKE(signalfd);
UPOSIX_LIKE(inotify_init);
UPOSIX_LIKE(inotify_init1);
UPOSIX_LIKE(epoll_create);
UPOSIX_LIKE(epoll_create1);

UPOSIX_LIKE(dup);
UPOSIX_LIKE(dup2);
UPOSIX_LIKE(dup3);
UPOSIX_LIKE(close);
UPOSIX_LIKE(close_range);
UPOSIX_LIKE(closefrom);
UPOSIX_LIKE(fcntl);
UPOSIX_LIKE(fcntl64);
UPOSIX_LIKE(ioctl);
UPOSIX_LIKE(setsockopt);
UPOSIX_LIKE(shutdown);

UPOSIX_LIKE(read);
UPOSIX_LIKE(readv);
UPOSIX_LIKE(write);
UPOSIX_LIKE(writev);
UPOSIX_LIKE(recv);
UPOSIX_LIKE(recvfrom);
UPOSIX_LIKE(recvmsg);
UPOSIX_LIKE(recvmmsg);
UPOSIX_LIKE(send);
UPOSIX_LIKE(sendto);
UPOSIX_LIKE(sendmsg);
UPOSIX_LIKE(sendmmsg);
UPOSIX_LIKE(sendfile);
UPOSIX_LIKE(sendfile64);
UPOSIX_LIKE(splice);
UPOSIX_LIKE(tee);
UPOSIX_LIKE(vmsplice);
UPOSIX_LIKE(preadv2);
UPOSIX_LIKE(pwritev2);
UPOSIX_LIKE(preadv64v2);
UPOSIX_LIKE(pwritev64v2);
UPOSIX_LIKE(eventfd_read);
UPOSIX_LIKE(eventfd_write);
UPOSIX_LIKE(mq_receive);
UPOSIX_LIKE(mq_timedreceive);
UPOSIX_LIKE(mq_send);
UPOSIX_LIKE(mq_timedsend);
UPOSIX_LIKE(mq_close);
UPOSIX_LIKE(aio_read);
UPOSIX_LIKE(aio_read64);
UPOSIX_LIKE(aio_write);
UPOSIX_LIKE(aio_write64);
UPOSIX_LIKE(aio_suspend);
UPOSIX_LIKE(aio_suspend64);
UPOSIX_LIKE(lio_listio);
UPOSIX_LIKE(lio_listio64);

UPOSIX_LIKE(poll);
UPOSIX_LIKE(ppoll);
UPOSIX_LIKE(select);
UPOSIX_LIKE(pselect);
UPOSIX_LIKE(epoll_wait);
UPOSIX_LIKE(epoll_pwait);
UPOSIX_LIKE(epoll_pwait2);

UPOSIX_LIKE(accept);
UPOSIX_LIKE(accept4);
UPOSIX_LIKE(connect);
UPOSIX_LIKE(getaddrinfo);
UPOSIX_LIKE(getnameinfo);
UPOSIX_LIKE(gethostbyname);
UPOSIX_LIKE(gethostbyname2);
UPOSIX_LIKE(gethostbyaddr);
UPOSIX_LIKE(gethostbyname_r);
UPOSIX_LIKE(gethostbyname2_r);
UPOSIX_LIKE(gethostbyaddr_r);

UPOSIX_LIKE(wait);
UPOSIX_LIKE(waitpid);
UPOSIX_LIKE(wait3);
UPOSIX_LIKE(wait4);
UPOSIX_LIKE(waitid);
UPOSIX_LIKE(system);
UPOSIX_LIKE(popen);
UPOSIX_LIKE(pclose);
UPOSIX_LIKE(posix_spawn);
UPOSIX_LIKE(posix_spawnp);
UPOSIX_LIKE(flock);
UPOSIX_LIKE(lockf);
UPOSIX_LIKE(lockf64);
UPOSIX_LIKE(sigwait);
UPOSIX_LIKE(sigwaitinfo);
UPOSIX_LIKE(sigtimedwait);

UPOSIX_LIKE(fdopen);
UPOSIX_LIKE(fclose);
UPOSIX_LIKE(freopen);
UPOSIX_LIKE(freopen64);
UPOSIX_LIKE(fileno);
UPOSIX_LIKE(fileno_unlocked);
UPOSIX_LIKE(flockfile);
UPOSIX_LIKE(funlockfile);
UPOSIX_LIKE(ftrylockfile);
UPOSIX_LIKE(fgets);
UPOSIX_LIKE(fgetc);
UPOSIX_LIKE(getc);
UPOSIX_LIKE(ungetc);
UPOSIX_LIKE(fputs);
UPOSIX_LIKE(fputc);
UPOSIX_LIKE(putc);
UPOSIX_LIKE(fread);
UPOSIX_LIKE(fwrite);
UPOSIX_LIKE(getline);
UPOSIX_LIKE(getdelim);
UPOSIX_LIKE(__getdelim);
UPOSIX_LIKE(vfprintf);
UPOSIX_LIKE(printf);
UPOSIX_LIKE(vprintf);
UPOSIX_LIKE(puts);
UPOSIX_LIKE(putchar);
UPOSIX_LIKE(vfscanf);
UPOSIX_LIKE(fflush);
UPOSIX_LIKE(fcloseall);
UPOSIX_LIKE(fprintf);
UPOSIX_LIKE(fscanf);
UPOSIX_LIKE(getchar);
UPOSIX_LIKE(scanf);
UPOSIX_LIKE(vscanf);
UPOSIX_LIKE(vdprintf);
UPOSIX_LIKE(dprintf);
UPOSIX_LIKE(fgetwc);
UPOSIX_LIKE(getwc);
UPOSIX_LIKE(getwchar);
UPOSIX_LIKE(fgetws);
UPOSIX_LIKE(ungetwc);
UPOSIX_LIKE(fputwc);
UPOSIX_LIKE(putwc);
UPOSIX_LIKE(fputws);
UPOSIX_LIKE(fwide);
UPOSIX_LIKE(vfwprintf);
UPOSIX_LIKE(fwprintf);
UPOSIX_LIKE(vfwscanf);
UPOSIX_LIKE(fwscanf);

UPOSIX_LIKE(prctl);
UPOSIX_LIKE(syscall);
UPOSIX_LIKE(timer_create);
int uposix_tgkill(pid_t process, pid_t thread, int sig);

/* Those of C11, unless <threads.h> comes later, and declares them by these names. */
#ifdef _THREADS_H
UPOSIX_LIKE(thrd_create);
UPOSIX_LIKE(thrd_exit);
UPOSIX_LIKE(thrd_join);
UPOSIX_LIKE(thrd_detach);
UPOSIX_LIKE(thrd_current);
UPOSIX_LIKE(thrd_equal);
UPOSIX_LIKE(thrd_yield);
UPOSIX_LIKE(thrd_sleep);
UPOSIX_LIKE(mtx_init);
UPOSIX_LIKE(mtx_destroy);
UPOSIX_LIKE(mtx_lock);
UPOSIX_LIKE(mtx_trylock);
UPOSIX_LIKE(mtx_timedlock);
UPOSIX_LIKE(mtx_unlock);
UPOSIX_LIKE(cnd_init);
UPOSIX_LIKE(cnd_destroy);
UPOSIX_LIKE(cnd_wait);
UPOSIX_LIKE(cnd_timedwait);
UPOSIX_LIKE(cnd_signal);
UPOSIX_LIKE(cnd_broadcast);
UPOSIX_LIKE(tss_create);
UPOSIX_LIKE(tss_delete);
UPOSIX_LIKE(tss_get);
UPOSIX_LIKE(tss_set);
UPOSIX_LIKE(call_once);
#endif

#undef UPOSIX_LIKE

/* What inline functions of libc call, and scanf() of C99 and C23. */
int uposix___uflow(FILE *file);
int uposix___underflow(FILE *file);
int uposix___isoc99_vfscanf(FILE *file, const char *format, va_list list);
int uposix___isoc99_fscanf(FILE *file, const char *format, ...);
int uposix___isoc99_vscanf(const char *format, va_list list);
int uposix___isoc99_scanf(const char *format, ...);
int uposix___isoc23_vfscanf(FILE *file, const char *format, va_list list);
int uposix___isoc23_fscanf(FILE *file, const char *format, ...);
int uposix___isoc23_vscanf(const char *format, va_list list);
int uposix___isoc23_scanf(const char *format, ...);
int uposix___isoc99_vfwscanf(FILE *file, const wchar_t *format, va_list list);
int uposix___isoc99_fwscanf(FILE *file, const wchar_t *format, ...);
int uposix___isoc23_vfwscanf(FILE *file, const wchar_t *format, va_list list);
int uposix___isoc23_fwscanf(FILE *file, const wchar_t *format, ...);

/* Of resolv.h, which programs need not have. */
int uposix_res_query(const char *name, int space, int type, unsigned char *answer,
		     int size);
int uposix_res_search(const char *name, int space, int type, unsigned char *answer,
		      int size);

/* In the place of calls with _FORTIFY_SOURCE. */
int uposix___open_2(const char *path, int flags);
int uposix___open64_2(const char *path, int flags);
int uposix___openat_2(int dir, const char *path, int flags);
int uposix___openat64_2(int dir, const char *path, int flags);
ssize_t uposix___read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t uposix___recv_chk(int fd, void *buffer, size_t size, size_t room, int flags);
ssize_t uposix___recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags,
			      __SOCKADDR_ARG from, socklen_t *from_size);
int uposix___poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room);
int uposix___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit,
		       const sigset_t *mask, size_t room);
char *uposix___fgets_chk(char *text, size_t room, int size, FILE *file);
size_t uposix___fread_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
int uposix___vfprintf_chk(FILE *file, int flag, const char *format, va_list list);
int uposix___fprintf_chk(FILE *file, int flag, const char *format, ...);
int uposix___vprintf_chk(int flag, const char *format, va_list list);
int uposix___printf_chk(int flag, const char *format, ...);
int uposix___vdprintf_chk(int fd, int flag, const char *format, va_list list);
int uposix___dprintf_chk(int fd, int flag, const char *format, ...);
wchar_t *uposix___fgetws_chk(wchar_t *text, size_t room, int size, FILE *file);
int uposix___vfwprintf_chk(FILE *file, int flag, const wchar_t *format, va_list list);
int uposix___fwprintf_chk(FILE *file, int flag, const wchar_t *format, ...);

#ifdef __cplusplus
}
#endif

#ifndef UPOSIX_PLAIN
#include "uposix_define.h"
#endif

#endif /* USCHED_UPOSIX_H */
