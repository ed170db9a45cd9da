/* SPDX-License-Identifier: MIT */
/*
 * uposix_names.h: the functions that libusched-posix replaces, as a list of macros. A
 * file that includes the list defines the macros of the rows that it needs; the list
 * undefines all macros at its end. uposix_sim_names.h has more rows, for a simulation.
 *
 *	NAME(read)      The assembly file exports read, which calls uposix_read(), and
 *	                __wrap_read, which calls libc. With --wrap=read, read() in this
 *	                library is __wrap_read(). posix.mk makes uposix_define.h, which
 *	                declares uposix_read() and defines read as uposix_read.
 *	LATER(name)     As NAME, for a function that some versions of glibc from 2.17 on
 *	                lack. The first call of any NAME function finds all NAME functions
 *	                by dlsym(). That call may come from a memory allocator, and for a
 *	                missing name dlsym() allocates memory. So the constructor finds
 *	                LATER functions. By default LATER is NAME.
 *	SYSCALL(read, call)     syscall(SYS_read) is `call'.
 *	MAKES(open)     syscall(SYS_open) returns a new descriptor.
 *	REFUSED(name)   syscall() fails with ENOSYS.
 *	ALIAS(gsignal, raise)   gsignal is another name of raise. UNDER(read) makes
 *	                __read another name of read, and STREAM(puts) _IO_puts of puts.
 *	KEPT(name)      The function changes a setting that the kernel keeps for each
 *	                native thread, and the change is reported. uposix_define.h leaves
 *	                the name out.
 *	NUMBER(name)    As KEPT, for syscall() only: libc's function makes the change for
 *	                the whole process, which is what programs expect.
 *	LOOKS(name)     A function of libc that a loop may call until something changes.
 *	                Other threads may run before the call. uposix_define.h leaves the
 *	                name out.
 *	SEES(name)      As LOOKS and LATER.
 */
#include <features.h>

#ifndef NAME
#define NAME(name)
#endif
#ifndef LATER
#define LATER(name) NAME(name)
#endif
#ifndef PLAIN
#define PLAIN(name) NAME(name)
#endif
#ifndef WORLD
#define WORLD(name) LATER(name)
#endif
#ifndef KEPT
#define KEPT(name) LATER(name)
#endif
#ifndef LOOKS
#define LOOKS(name) NAME(name)
#define SEES(name) LATER(name)
#else
#define SEES(name) LOOKS(name)
#endif
#ifndef NUMBER
#define NUMBER(name)
#endif
#ifndef ALIAS
#define ALIAS(alias, name)
#endif
#define UNDER(name) ALIAS(__##name, name)
#define STREAM(name) ALIAS(_IO_##name, name)
#ifndef SYSCALL
#define SYSCALL(name, ...)
#define MAKES(name)
#define REFUSED(name, ...)
#endif

NAME(pthread_self)
NAME(pthread_mutex_init)
NAME(pthread_mutex_destroy)
NAME(pthread_mutex_lock)
NAME(pthread_mutex_trylock)
NAME(pthread_mutex_unlock)
NAME(pthread_once)
NAME(pthread_key_create)
NAME(pthread_key_delete)
NAME(pthread_getspecific)
NAME(pthread_setspecific)

/* Thread-local variables of C++ and Rust: uposix_exchange.c. */
LATER(__cxa_thread_atexit_impl)
NAME(uselocale)
NAME(__uselocale)

/* Threads: uposix.c. */
NAME(pthread_create)
NAME(pthread_join)
NAME(pthread_tryjoin_np)
NAME(pthread_timedjoin_np)
LATER(pthread_clockjoin_np)
NAME(pthread_detach)
NAME(pthread_exit)
NAME(pthread_setname_np)
NAME(pthread_getname_np)
NAME(pthread_getattr_np)
NAME(pthread_getschedparam)
NAME(pthread_setschedparam)
NAME(pthread_setschedprio)
NAME(pthread_getaffinity_np)
NAME(pthread_setaffinity_np)
NAME(pthread_getcpuclockid)
LATER(pthread_yield)
NAME(vfork)
NAME(sched_yield)

/* Cancellation and signals: uposix_cancel.c, uposix_signal.c. */
NAME(pthread_cancel)
NAME(pthread_testcancel)
NAME(pthread_setcancelstate)
NAME(pthread_setcanceltype)
NAME(__pthread_register_cancel)
NAME(__pthread_unregister_cancel)
NAME(__pthread_register_cancel_defer)
NAME(__pthread_unregister_cancel_restore)
NAME(__pthread_unwind_next)
NAME(pthread_kill)
LATER(pthread_sigqueue)
LATER(tgkill)
LATER(timer_create)
NAME(pthread_sigmask)
NAME(sigprocmask)
NAME(raise)
NAME(pause)
NAME(sigsuspend)
NAME(sigpending)

/* Time: uposix_time.c. */
NAME(sleep)
NAME(usleep)
NAME(nanosleep)
NAME(clock_nanosleep)

/* Locks: uposix_sync.c. */
NAME(pthread_mutex_timedlock)
LATER(pthread_mutex_clocklock)
NAME(pthread_mutex_consistent)
NAME(pthread_mutex_getprioceiling)
NAME(pthread_mutex_setprioceiling)
NAME(pthread_cond_init)
NAME(pthread_cond_destroy)
NAME(pthread_cond_wait)
NAME(pthread_cond_timedwait)
LATER(pthread_cond_clockwait)
NAME(pthread_cond_signal)
NAME(pthread_cond_broadcast)
NAME(pthread_rwlock_init)
NAME(pthread_rwlock_destroy)
NAME(pthread_rwlock_rdlock)
NAME(pthread_rwlock_tryrdlock)
NAME(pthread_rwlock_timedrdlock)
LATER(pthread_rwlock_clockrdlock)
NAME(pthread_rwlock_wrlock)
NAME(pthread_rwlock_trywrlock)
NAME(pthread_rwlock_timedwrlock)
LATER(pthread_rwlock_clockwrlock)
NAME(pthread_rwlock_unlock)
NAME(sem_init)
NAME(sem_destroy)
NAME(sem_wait)
NAME(sem_trywait)
NAME(sem_timedwait)
LATER(sem_clockwait)
NAME(sem_post)
NAME(sem_getvalue)
NAME(pthread_barrier_init)
NAME(pthread_barrier_destroy)
NAME(pthread_barrier_wait)
NAME(pthread_spin_lock)
NAME(pthread_spin_trylock)

/* Objects of System V: uposix_shared.c. */
NAME(msgrcv)
NAME(msgsnd)
NAME(semop)
NAME(semtimedop)

/* What the kernel keeps: uposix_call.c. */
NAME(prctl)
#ifndef USCHED_SIM
KEPT(setfsuid) KEPT(setfsgid) KEPT(unshare) KEPT(setns) KEPT(capset) KEPT(setpriority)
KEPT(sched_setaffinity) KEPT(sched_setparam) KEPT(sched_setscheduler)
#endif
NUMBER(setuid) NUMBER(setgid) NUMBER(setreuid) NUMBER(setregid) NUMBER(setresuid)
NUMBER(setresgid) NUMBER(setgroups) NUMBER(ioprio_set) NUMBER(personality)
NUMBER(sched_setattr) NUMBER(seccomp) NUMBER(set_mempolicy)

/* System calls: uposix_futex.c. */
NAME(syscall)

/* Threads of C11: uposix_c11.c. */
LATER(thrd_create)
LATER(thrd_exit)
LATER(thrd_join)
LATER(thrd_detach)
LATER(thrd_current)
LATER(thrd_equal)
LATER(thrd_yield)
LATER(thrd_sleep)
LATER(mtx_init)
LATER(mtx_destroy)
LATER(mtx_lock)
LATER(mtx_trylock)
LATER(mtx_timedlock)
LATER(mtx_unlock)
LATER(cnd_init)
LATER(cnd_destroy)
LATER(cnd_wait)
LATER(cnd_timedwait)
LATER(cnd_signal)
LATER(cnd_broadcast)
LATER(tss_create)
LATER(tss_delete)
LATER(tss_get)
LATER(tss_set)
LATER(call_once)

/*
 * Descriptors: uposix_fd.c, uposix_io.c, uposix_poll.c, uposix_net.c, uposix_proc.c,
 * uposix_file.c, uposix_queue.c.
 */
NAME(open)
NAME(open64)
NAME(openat)
NAME(openat64)
NAME(creat)
NAME(creat64)
NAME(closedir)
NAME(socket)
NAME(socketpair)
NAME(pipe)
NAME(pipe2)
NAME(eventfd)
NAME(timerfd_create)
NAME(signalfd)
NAME(inotify_init)
NAME(inotify_init1)
NAME(epoll_create)
NAME(epoll_create1)
NAME(dup)
NAME(dup2)
NAME(dup3)
NAME(close)
LATER(close_range)
LATER(closefrom)
NAME(fcntl)
LATER(fcntl64)
NAME(ioctl)
NAME(setsockopt)
NAME(shutdown)
NAME(read)
NAME(readv)
NAME(write)
NAME(writev)
NAME(recv)
NAME(recvfrom)
NAME(recvmsg)
NAME(recvmmsg)
NAME(send)
NAME(sendto)
NAME(sendmsg)
NAME(sendmmsg)
NAME(sendfile)
NAME(sendfile64)
NAME(splice)
NAME(tee)
NAME(vmsplice)
LATER(preadv2)
LATER(pwritev2)
LATER(preadv64v2)
LATER(pwritev64v2)
NAME(eventfd_read)
NAME(eventfd_write)
LATER(mq_receive)
LATER(mq_timedreceive)
LATER(mq_send)
LATER(mq_timedsend)
LATER(mq_close)
LATER(aio_read)
LATER(aio_read64)
LATER(aio_write)
LATER(aio_write64)
LATER(aio_suspend)
LATER(aio_suspend64)
LATER(lio_listio)
LATER(lio_listio64)
NAME(poll)
NAME(ppoll)
NAME(select)
NAME(pselect)
NAME(epoll_wait)
NAME(epoll_pwait)
LATER(epoll_pwait2)
NAME(accept)
NAME(accept4)
NAME(connect)
NAME(getaddrinfo)
NAME(getnameinfo)
NAME(gethostbyname)
NAME(gethostbyname2)
NAME(gethostbyaddr)
NAME(gethostbyname_r)
NAME(gethostbyname2_r)
NAME(gethostbyaddr_r)
LATER(res_query)
LATER(res_search)
NAME(wait)
NAME(waitpid)
NAME(wait3)
NAME(wait4)
NAME(waitid)
NAME(system)
NAME(popen)
NAME(pclose)
NAME(posix_spawn)
NAME(posix_spawnp)
NAME(flock)
NAME(lockf)
NAME(lockf64)
NAME(sigwait)
NAME(sigwaitinfo)
NAME(sigtimedwait)

/* Streams: uposix_stdio.c. */
NAME(fdopen)
NAME(fclose)
NAME(freopen)
NAME(freopen64)
NAME(fileno)
NAME(fileno_unlocked)
NAME(flockfile)
NAME(funlockfile)
NAME(ftrylockfile)
NAME(fgets)
NAME(fgetc)
NAME(getc)
NAME(ungetc)
NAME(fputs)
NAME(fputc)
NAME(putc)
NAME(fread)
NAME(fwrite)
NAME(getline)
NAME(getdelim)
NAME(__getdelim)
NAME(vfprintf)
NAME(printf)
NAME(vprintf)
NAME(puts)
NAME(putchar)
NAME(vfscanf)
NAME(fflush)
NAME(fcloseall)
NAME(fprintf)
NAME(fscanf)
NAME(getchar)
NAME(scanf)
NAME(vscanf)
NAME(__uflow)
NAME(__underflow)
NAME(__isoc99_vfscanf)
NAME(__isoc99_fscanf)
NAME(__isoc99_vscanf)
NAME(__isoc99_scanf)
LATER(__isoc23_vfscanf)
LATER(__isoc23_fscanf)
LATER(__isoc23_vscanf)
LATER(__isoc23_scanf)
NAME(vdprintf)
NAME(dprintf)
NAME(fgetwc)
NAME(getwc)
NAME(getwchar)
NAME(fgetws)
NAME(ungetwc)
NAME(fputwc)
NAME(putwc)
NAME(fputws)
NAME(fwide)
NAME(vfwprintf)
NAME(fwprintf)
NAME(vfwscanf)
NAME(fwscanf)
NAME(__isoc99_vfwscanf)
NAME(__isoc99_fwscanf)
LATER(__isoc23_vfwscanf)
LATER(__isoc23_fwscanf)
NAME(putwchar)
NAME(vwprintf)
NAME(wprintf)
NAME(vwscanf)
NAME(wscanf)
NAME(__isoc99_vwscanf)
NAME(__isoc99_wscanf)
LATER(__isoc23_vwscanf)
LATER(__isoc23_wscanf)

/* The variants that _FORTIFY_SOURCE calls. */
NAME(__open_2)
NAME(__open64_2)
NAME(__openat_2)
NAME(__openat64_2)
NAME(__read_chk)
NAME(__recv_chk)
NAME(__recvfrom_chk)
NAME(__poll_chk)
NAME(__ppoll_chk)
NAME(__fgets_chk)
NAME(__fread_chk)
NAME(__vfprintf_chk)
NAME(__fprintf_chk)
NAME(__vprintf_chk)
NAME(__printf_chk)
NAME(__vdprintf_chk)
NAME(__dprintf_chk)
NAME(__fgetws_chk)
NAME(__vfwprintf_chk)
NAME(__fwprintf_chk)
NAME(__vwprintf_chk)
NAME(__wprintf_chk)

#ifndef USCHED_SIM
NAME(pread)
NAME(pread64)
NAME(__pread_chk)
NAME(__pread64_chk)
NAME(pwrite)
NAME(pwrite64)
NAME(fsync)
NAME(fdatasync)
UNDER(pread64) UNDER(pwrite64)
SYSCALL(pread64, uposix_pread(I(0), P(1), N(2), a[3]))
SYSCALL(pwrite64, uposix_pwrite(I(0), P(1), N(2), a[3]))
SYSCALL(fsync, uposix_fsync(I(0)))
SYSCALL(fdatasync, uposix_fdatasync(I(0)))
#endif

/* Functions that look at files and values. In glibc before 2.33 stat() is __xstat(). */
#ifndef USCHED_SIM
SEES(stat) SEES(stat64) SEES(lstat) SEES(lstat64) SEES(fstat) SEES(fstat64)
SEES(fstatat) SEES(fstatat64) SEES(statx)
SEES(aio_error) SEES(aio_error64)
LOOKS(__xstat) LOOKS(__xstat64) LOOKS(__lxstat) LOOKS(__lxstat64) LOOKS(__fxstat)
LOOKS(__fxstat64) LOOKS(__fxstatat) LOOKS(__fxstatat64)
LOOKS(access) LOOKS(faccessat) LOOKS(euidaccess) LOOKS(eaccess) LOOKS(readlink)
LOOKS(fopen) LOOKS(fopen64) LOOKS(opendir) LOOKS(mkdir) LOOKS(rmdir) LOOKS(link)
LOOKS(symlink) LOOKS(unlink) LOOKS(remove) LOOKS(rename)
LOOKS(lseek) LOOKS(lseek64)
LOOKS(getsockopt) LOOKS(getsockname) LOOKS(getpeername) LOOKS(kill)
#endif

/* Other names. */
UNDER(close) UNDER(connect) UNDER(dup2) UNDER(fcntl) UNDER(nanosleep) UNDER(open)
UNDER(open64) UNDER(pipe) UNDER(poll) UNDER(read) UNDER(sched_yield)
UNDER(select) UNDER(send) UNDER(sigsuspend) UNDER(vfork) UNDER(vfscanf)
UNDER(wait) UNDER(waitpid) UNDER(write) UNDER(pthread_mutex_destroy)
UNDER(pthread_mutex_init) UNDER(pthread_mutex_lock) UNDER(pthread_mutex_trylock)
UNDER(pthread_mutex_unlock) UNDER(pthread_rwlock_destroy) UNDER(pthread_rwlock_init)
UNDER(pthread_rwlock_rdlock) UNDER(pthread_rwlock_tryrdlock)
UNDER(pthread_rwlock_trywrlock) UNDER(pthread_rwlock_unlock) UNDER(pthread_rwlock_wrlock)
ALIAS(gsignal, raise) ALIAS(pthread_mutex_consistent_np, pthread_mutex_consistent)
/* In older versions dlsym() calls the first four, and res_query() has one name only. */
#if __GLIBC_PREREQ(2, 34)
UNDER(pthread_getspecific) UNDER(pthread_key_create) UNDER(pthread_once)
UNDER(pthread_setspecific) UNDER(res_query) UNDER(res_search)
#endif
STREAM(fclose) STREAM(fdopen) STREAM(fflush) STREAM(fgets) STREAM(flockfile)
STREAM(fprintf) STREAM(fputs) STREAM(fread) STREAM(ftrylockfile) STREAM(funlockfile)
STREAM(fwrite) STREAM(getc) STREAM(popen) STREAM(printf) STREAM(putc) STREAM(puts)
STREAM(ungetc) STREAM(vfprintf)

/* Numbers of syscall(): uposix_call.c. Some machines lack the older numbers. */
SYSCALL(read, uposix_read(I(0), P(1), N(2)))
SYSCALL(readv, uposix_readv(I(0), P(1), I(2)))
SYSCALL(write, uposix_write(I(0), P(1), N(2)))
SYSCALL(writev, uposix_writev(I(0), P(1), I(2)))
SYSCALL(recvfrom, uposix_recvfrom(I(0), P(1), N(2), I(3), P(4), P(5)))
SYSCALL(recvmsg, uposix_recvmsg(I(0), P(1), I(2)))
SYSCALL(recvmmsg, uposix_recvmmsg(I(0), P(1), U(2), I(3), P(4)))
SYSCALL(sendto, uposix_sendto(I(0), P(1), N(2), I(3), P(4), (socklen_t)a[5]))
SYSCALL(sendmsg, uposix_sendmsg(I(0), P(1), I(2)))
SYSCALL(sendmmsg, uposix_sendmmsg(I(0), P(1), U(2), I(3)))
SYSCALL(sendfile, uposix_sendfile(I(0), I(1), P(2), N(3)))
SYSCALL(splice, uposix_splice(I(0), P(1), I(2), P(3), N(4), U(5)))
SYSCALL(tee, uposix_tee(I(0), I(1), N(2), U(3)))
SYSCALL(vmsplice, uposix_vmsplice(I(0), P(1), N(2), U(3)))
#ifdef SYS_preadv2
SYSCALL(preadv2, uposix_preadv2(I(0), P(1), I(2), a[3], I(5)))
SYSCALL(pwritev2, uposix_pwritev2(I(0), P(1), I(2), a[3], I(5)))
#endif
SYSCALL(close, uposix_close(I(0)))
SYSCALL(close_range, uposix_close_range(U(0), U(1), I(2)))
SYSCALL(dup, uposix_dup(I(0)))
SYSCALL(dup3, uposix_dup3(I(0), I(1), I(2)))
SYSCALL(fcntl, uposix_fcntl(I(0), I(1), a[2]))
SYSCALL(ioctl, uposix_ioctl(I(0), (unsigned long)a[1], P(2)))
SYSCALL(flock, uposix_flock(I(0), I(1)))
SYSCALL(socket, uposix_socket(I(0), I(1), I(2)))
SYSCALL(socketpair, uposix_socketpair(I(0), I(1), I(2), P(3)))
SYSCALL(setsockopt, uposix_setsockopt(I(0), I(1), I(2), P(3), (socklen_t)a[4]))
SYSCALL(shutdown, uposix_shutdown(I(0), I(1)))
SYSCALL(accept, uposix_accept(I(0), P(1), P(2)))
SYSCALL(accept4, uposix_accept4(I(0), P(1), P(2), I(3)))
SYSCALL(connect, uposix_connect(I(0), P(1), (socklen_t)a[2]))
SYSCALL(pipe2, uposix_pipe2(P(0), I(1)))
SYSCALL(eventfd2, uposix_eventfd(U(0), I(1)))
SYSCALL(timerfd_create, uposix_timerfd_create(I(0), I(1)))
SYSCALL(signalfd4, uposix_signalfd(I(0), mask_of(a[1], &room), I(3)))
SYSCALL(inotify_init1, uposix_inotify_init1(I(0)))
SYSCALL(epoll_create1, uposix_epoll_create1(I(0)))
SYSCALL(ppoll, uposix_ppoll(P(0), N(1), P(2), mask_of(a[3], &room)))
SYSCALL(pselect6, uposix_pselect(I(0), P(1), P(2), P(3), P(4), mask_at(a[5], &room)))
SYSCALL(epoll_pwait, uposix_epoll_pwait(I(0), P(1), I(2), I(3), mask_of(a[4], &room)))
SYSCALL(epoll_pwait2, uposix_epoll_pwait2(I(0), P(1), I(2), P(3), mask_of(a[4], &room)))
SYSCALL(waitid, a[4] ? syscall(number, a[0], a[1], a[2], a[3], a[4])
		     : uposix_waitid((idtype_t)a[0], (id_t)a[1], P(2), I(3)))
SYSCALL(wait4, uposix_wait4(I(0), P(1), I(2), P(3)))
SYSCALL(prctl, uposix_prctl(I(0), a[1], a[2], a[3], a[4]))
SYSCALL(tgkill, uposix_tgkill(I(0), I(1), I(2)))
SYSCALL(tkill, uposix_tgkill(getpid(), I(0), I(1)))
#ifdef SYS_pipe
SYSCALL(pipe, uposix_pipe(P(0)))
SYSCALL(dup2, uposix_dup2(I(0), I(1)))
SYSCALL(poll, uposix_poll(P(0), N(1), I(2)))
SYSCALL(select, uposix_select(I(0), P(1), P(2), P(3), P(4)))
SYSCALL(eventfd, uposix_eventfd(U(0), 0))
SYSCALL(signalfd, uposix_signalfd(I(0), mask_of(a[1], &room), 0))
SYSCALL(inotify_init, uposix_inotify_init())
SYSCALL(epoll_create, uposix_epoll_create(I(0)))
SYSCALL(epoll_wait, uposix_epoll_wait(I(0), P(1), I(2), I(3)))
SYSCALL(open, uposix_open(P(0), I(1), (mode_t)a[2]))
SYSCALL(creat, uposix_creat(P(0), (mode_t)a[1]))
#endif
SYSCALL(openat, uposix_openat(I(0), P(1), I(2), (mode_t)a[3]))
SYSCALL(mq_timedsend, a[4] ? uposix_mq_timedsend(I(0), P(1), N(2), U(3), P(4))
			   : uposix_mq_send(I(0), P(1), N(2), U(3)))
SYSCALL(mq_timedreceive, a[4] ? uposix_mq_timedreceive(I(0), P(1), N(2), P(3), P(4))
			      : uposix_mq_receive(I(0), P(1), N(2), P(3)))
SYSCALL(msgrcv, uposix_msgrcv(I(0), P(1), N(2), a[3], I(4)))
SYSCALL(msgsnd, uposix_msgsnd(I(0), P(1), N(2), I(3)))
SYSCALL(semop, uposix_semop(I(0), P(1), N(2)))
SYSCALL(semtimedop, uposix_semtimedop(I(0), P(1), N(2), P(3)))
SYSCALL(io_getevents, uposix__get_events(number, a, NULL))
#ifdef SYS_io_pgetevents
SYSCALL(io_pgetevents, uposix__get_events(number, a, mask_at(a[5], &room)))
#endif
MAKES(open_by_handle_at)
MAKES(memfd_create)
MAKES(perf_event_open)
MAKES(fanotify_init)
MAKES(userfaultfd)
MAKES(mq_open)
#ifdef SYS_io_uring_setup
REFUSED(io_uring_setup, a program that finds none does without: its reads would be unseen)
#endif
#ifdef SYS_openat2
#ifndef USCHED_SIM
MAKES(openat2)
#endif
MAKES(pidfd_open)
MAKES(pidfd_getfd)
MAKES(open_tree)
MAKES(fsopen)
MAKES(fsmount)
MAKES(fspick)
#endif
#ifdef SYS_landlock_create_ruleset
MAKES(landlock_create_ruleset)
#endif
#ifdef SYS_memfd_secret
MAKES(memfd_secret)
#endif

#ifdef USCHED_SIM
#include "uposix_sim_names.h"
#endif

#undef NAME
#undef LATER
#undef PLAIN
#undef WORLD
#undef KEPT
#undef LOOKS
#undef SEES
#undef NUMBER
#undef ALIAS
#undef UNDER
#undef STREAM
#undef SYSCALL
#undef MAKES
#undef REFUSED
