/* SPDX-License-Identifier: MIT */
/*
 * uposix_sim_names.h: rows of uposix_names.h for the functions that only a simulation
 * replaces. PLAIN(bind): bind is exported, and jumps to the function that
 * uposix__replace() has set, otherwise to libc's. WORLD(time): in a run of a whole
 * program, the program's time() is uposix_time(), in sim/; time() in this library is
 * libc's.
 */

/* The clock and chance: sim/clock.c. */
WORLD(clock_gettime) WORLD(gettimeofday) WORLD(time) WORLD(timespec_get) WORLD(clock)
WORLD(getrandom) WORLD(getentropy) WORLD(getpid) WORLD(getppid) WORLD(gettid)
WORLD(getrusage) WORLD(times) WORLD(clock_getcpuclockid) PLAIN(getpriority)
PLAIN(setpriority) PLAIN(sched_getaffinity) PLAIN(sched_setaffinity)
PLAIN(sched_getparam) PLAIN(sched_setparam) PLAIN(sched_getscheduler)
PLAIN(sched_setscheduler) PLAIN(getpgid) PLAIN(setpgid) PLAIN(getsid) PLAIN(prlimit)
PLAIN(sched_rr_get_interval)

PLAIN(bind) PLAIN(listen) PLAIN(getsockname) PLAIN(getpeername) PLAIN(getsockopt)
PLAIN(epoll_ctl) PLAIN(timerfd_settime) PLAIN(timerfd_gettime) WORLD(alarm)
WORLD(ualarm) WORLD(getitimer) WORLD(setitimer) WORLD(setrlimit)
WORLD(timer_settime) WORLD(timer_gettime) WORLD(timer_getoverrun) WORLD(timer_delete)

/* Files: sim/file.c. */
PLAIN(pread) PLAIN(pwrite) PLAIN(lseek) PLAIN(fsync) PLAIN(fdatasync) PLAIN(ftruncate)
WORLD(fopen) WORLD(stat) WORLD(lstat) WORLD(fstat) WORLD(access) WORLD(rename)
WORLD(unlink) WORLD(remove) WORLD(mkdir) WORLD(fstatat) WORLD(statx) WORLD(mkstemp)
WORLD(mkostemp) WORLD(mkdtemp) WORLD(rmdir) WORLD(chmod) WORLD(mkdirat) WORLD(unlinkat)
WORLD(renameat) WORLD(renameat2) WORLD(faccessat) WORLD(fchmod) WORLD(fchmodat)
WORLD(chown) WORLD(lchown) WORLD(fchown) WORLD(fchownat) WORLD(utime) WORLD(utimes)
WORLD(utimensat) WORLD(futimens) WORLD(opendir) WORLD(fdopendir) WORLD(readdir)
PLAIN(readdir_r) WORLD(telldir) WORLD(seekdir) WORLD(rewinddir) WORLD(scandir)
WORLD(chdir) WORLD(fchdir) WORLD(getcwd) WORLD(truncate) PLAIN(fallocate)
WORLD(shm_open) WORLD(shm_unlink) WORLD(link) WORLD(linkat) WORLD(glob) PLAIN(pwritev)
PLAIN(copy_file_range)

/* The end of a run: sim/serve.c. */
WORLD(_exit) WORLD(_Exit)

/* Accesses to memory: sim/access.c. */
WORLD(memcpy) WORLD(memmove) WORLD(memset) WORLD(memcmp) WORLD(strlen) WORLD(strchr)
WORLD(strrchr) WORLD(strcmp) WORLD(strncmp) WORLD(strcpy) WORLD(strncpy) WORLD(strcat)
WORLD(strdup) NAME(__cxa_guard_release) PLAIN(pthread_spin_unlock)

/* Calls that a simulation cannot repeat: sim/enter.c says what to use instead. */
PLAIN(fork) PLAIN(daemon) PLAIN(execl) PLAIN(execlp) PLAIN(execle) PLAIN(execv)
PLAIN(execve) PLAIN(execvp) PLAIN(execvpe) PLAIN(fexecve) PLAIN(clone) PLAIN(kill)
PLAIN(killpg) PLAIN(sigqueue) PLAIN(ptrace) PLAIN(sem_open)
PLAIN(mq_open) PLAIN(shmat) PLAIN(symlink) PLAIN(symlinkat)
PLAIN(mkfifo) PLAIN(mknod) PLAIN(ftw) PLAIN(nftw) PLAIN(fts_open)
PLAIN(mkstemps) PLAIN(syncfs) PLAIN(arc4random) PLAIN(arc4random_buf)
PLAIN(arc4random_uniform) PLAIN(tmpfile)
PLAIN(sync) PLAIN(clock_settime) PLAIN(settimeofday) PLAIN(adjtime)
PLAIN(adjtimex) PLAIN(clock_adjtime) PLAIN(sighold) PLAIN(sigrelse) PLAIN(sigpause)

/* off_t has 64 bits in any case. */
ALIAS(pread64, pread) ALIAS(pwrite64, pwrite) ALIAS(lseek64, lseek)
ALIAS(ftruncate64, ftruncate) ALIAS(fopen64, fopen) ALIAS(stat64, stat)
ALIAS(lstat64, lstat) ALIAS(fstat64, fstat) ALIAS(fstatat64, fstatat)
ALIAS(mkstemp64, mkstemp) ALIAS(mkostemp64, mkostemp) ALIAS(readdir64, readdir)
ALIAS(readdir64_r, readdir_r) ALIAS(scandir64, scandir) ALIAS(glob64, glob)
ALIAS(ftw64, ftw) ALIAS(nftw64, nftw) ALIAS(fallocate64, fallocate)
ALIAS(pwritev64, pwritev)
ALIAS(tmpfile64, tmpfile) ALIAS(truncate64, truncate) ALIAS(setrlimit64, setrlimit)

/* Numbers of syscall(). */
SYSCALL(fsync, fsync(I(0)))
SYSCALL(fdatasync, fdatasync(I(0)))
SYSCALL(ftruncate, ftruncate(I(0), a[1]))
SYSCALL(fallocate, fallocate(I(0), I(1), a[2], a[3]))
SYSCALL(pwrite64, pwrite(I(0), P(1), N(2), a[3]))
SYSCALL(getrandom, uposix_getrandom(P(0), N(1), U(2)))
SYSCALL(clock_gettime, uposix_clock_gettime(I(0), P(1)))
#ifdef SYS_openat2
SYSCALL(openat2, uposix__made(uposix_openat2(I(0), P(1), P(2), N(3)), UNKNOWN, false))
#endif
SYSCALL(statx, uposix_statx(I(0), P(1), I(2), U(3), P(4)))
SYSCALL(getpid, uposix_getpid())
SYSCALL(gettid, uposix_gettid())
