# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='glibc 2.36'
bug='BZ 25847: a signal is stolen, and a wait for a condition never ends'
bad='glibc 2.36'
good='glibc 2.41'
mode=-fsanitize=thread
options='--strategy depth'
runs=4000                       # it takes about five switches in one order

build() {
	for header in sysdep futex-internal pthreadP atomic atomic_wide_counter \
		shlib-compat stap-probe; do
		: >$header.h
	done
	object -I. -include "$here/glibc-cond.h" "$here/glibc-cond.c" \
		"$source/nptl/pthread_cond_wait.c" \
		"$source/nptl/pthread_cond_signal.c" \
		"$source/nptl/pthread_cond_broadcast.c"
}
