/* SPDX-License-Identifier: MIT */
/*
 * uposix.h: POSIX threads and calls that block, over usched, for programs that were not
 * written for usched.
 *
 *	cc -include usched/posix/uposix.h ...         the program's own calls, or
 *	usched-run PROGRAM...                   all of a program, by LD_PRELOAD
 *
 * uposix_NAME() does what NAME() of POSIX or glibc does, unless uposix(7) says otherwise.
 * Native threads, such as main(), may call each function, too. An object with
 * PTHREAD_PROCESS_SHARED keeps libc's format.
 *
 * uposix_define.h is generated from uposix_names.h. It declares each function with libc's
 * type, except the functions below. Unless UPOSIX_PLAIN is defined, it also defines the
 * name without uposix_ as a macro for the function. Headers of C++ undefine some of the
 * macros.
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
#include <sys/sem.h>                    /* before semop is defined as uposix_semop,
					   which libc would declare as noexcept */
extern "C" {
#endif

/*
 * Suppresses warnings. libc declares calls on sockets with an extension of GNU C that
 * lets these calls take any kind of address.
 */
#pragma GCC system_header

/*
 * Calls in which a cancel or a handler may end the thread. libc declares that these calls
 * do not throw, so C++ would end the process instead of the thread.
 */
int uposix_pthread_tryjoin_np(pthread_t thread, void **result);
int uposix_pthread_kill(pthread_t thread, int sig);
int uposix_pthread_sigqueue(pthread_t thread, int sig, const union sigval value);
int uposix_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int uposix_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int uposix_raise(int sig);
int uposix_tgkill(pid_t process, pid_t thread, int sig);
long uposix_syscall(long number, ...);
ssize_t uposix_sendfile(int fd, int from, off_t *offset, size_t size);
ssize_t uposix_sendfile64(int fd, int from, off64_t *offset, size_t size);
pid_t uposix_wait3(int *status, int options, struct rusage *usage);
pid_t uposix_wait4(pid_t pid, int *status, int options, struct rusage *usage);
int uposix_aio_suspend64(const struct aiocb64 *const list[], int n,
			 const struct timespec *limit);
int uposix_lio_listio(int mode, struct aiocb *const list[], int n,
		      struct sigevent *event);
int uposix_lio_listio64(int mode, struct aiocb64 *const list[], int n,
			struct sigevent *event);

/*
 * Functions of <sys/msg.h> and <sys/sem.h>. These headers are not included here, since a
 * program may define some of their other names itself.
 */
struct sembuf;
ssize_t uposix_msgrcv(int queue, void *message, size_t size, long type, int flags);
int uposix_msgsnd(int queue, const void *message, size_t size, int flags);
int uposix_semop(int set, struct sembuf *ops, size_t n);
int uposix_semtimedop(int set, struct sembuf *ops, size_t n,
		      const struct timespec *limit);

/* Functions that glibc before 2.35 lacks. */
int uposix_close_range(unsigned first, unsigned last, int flags);
void uposix_closefrom(int first);
int uposix_epoll_pwait2(int fd, struct epoll_event *events, int max,
			const struct timespec *limit, const sigset_t *mask);

/*
 * libc's declaration of pthread_exit() does not tell the compiler that the call never
 * returns.
 */
void uposix_pthread_exit(void *result) __attribute__((noreturn));

/* Functions that pthread_cleanup_push() of glibc calls. */
void uposix___pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void uposix___pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void uposix___pthread_unwind_next(__pthread_unwind_buf_t *buffer)
	__attribute__((noreturn));

/* The function that thread-local variables of C++ and Rust call at their first use. */
int uposix___cxa_thread_atexit_impl(void (*func)(void *object), void *object, void *dso);

/* The name by which libstdc++ calls uselocale(). */
extern __typeof__(uselocale) uposix___uselocale;

/* Functions that libc's inline functions call, and the scanf() of C99 and of C23. */
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
int uposix___isoc99_vwscanf(const wchar_t *format, va_list list);
int uposix___isoc99_wscanf(const wchar_t *format, ...);
int uposix___isoc23_vwscanf(const wchar_t *format, va_list list);
int uposix___isoc23_wscanf(const wchar_t *format, ...);

/* Functions of resolv.h, which programs need not include. */
int uposix_res_query(const char *name, int space, int type, unsigned char *answer,
		     int size);
int uposix_res_search(const char *name, int space, int type, unsigned char *answer,
		      int size);

/* The variants that _FORTIFY_SOURCE calls. */
int uposix___open_2(const char *path, int flags);
int uposix___open64_2(const char *path, int flags);
int uposix___openat_2(int dir, const char *path, int flags);
int uposix___openat64_2(int dir, const char *path, int flags);
ssize_t uposix___read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t uposix___pread_chk(int fd, void *buffer, size_t size, off_t at, size_t room);
ssize_t uposix___pread64_chk(int fd, void *buffer, size_t size, off64_t at, size_t room);
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
int uposix___vwprintf_chk(int flag, const wchar_t *format, va_list list);
int uposix___wprintf_chk(int flag, const wchar_t *format, ...);

#include "uposix_define.h"

#ifdef __cplusplus
}
#endif

#endif /* USCHED_UPOSIX_H */
