# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='memcached 1.6.18'
bug='SIGUSR1: the end of the logger is missed (to master of 2026-07)'
bad='memcached 1.6.18'
arguments=stop
libs=-levent

build() {
	[ -f "$source/config.h" ] || (cd "$source" && CC=$CC ./configure -q) || return
	object -DHAVE_CONFIG_H -DNDEBUG -Dmain=server_main -I"$source" \
		$(find "$source" -maxdepth 1 -name '*.c' ! -name 'testapp*' ! -name 'sizes*' \
			! -name 'timedrun*' ! -name 'proxy*' ! -name 'mcmc*' ! -name '*_priv.c' \
			! -name 'tls*' ! -name '*sasl*') \
		$(find "$source/vendor" -name mcmc.c)
	object "$here/memcached-run.c"
}

# The flag is looked at again, under the lock; and a worker that has just begun does not wait
# for the lock that the end holds, which is one more bug.
repair() {
	sed -i 's/if (watcher_count == 0)/if (watcher_count == 0 \&\& do_run_logger_thread)/' \
		"$source/logger.c"
	sed -i '/pile up if/,+2d' "$source/thread.c"
}
