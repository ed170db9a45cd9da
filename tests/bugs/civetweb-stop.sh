# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='civetweb 1.16'
bug='mg_stop() leaves a connection open that waits for a worker (to master of 2026-04)'
bad='civetweb 1.16'
mode=-fsanitize=thread

build() {
	object -DNO_SSL -DNO_CGI -DNO_FILES -I"$source/include" "$source/src/civetweb.c" \
		"$here/civetweb-stop.c"
}

# What a worker takes it serves, and what is left in the end is closed.
repair() {
	sed -i -e 's/if (ctx->sq_head > ctx->sq_tail) {/int taken = ctx->sq_head > ctx->sq_tail \&\& STOP_FLAG_IS_ZERO(\&ctx->stop_flag);\nif (taken) {/' \
		-e 's/return STOP_FLAG_IS_ZERO(&ctx->stop_flag);/return taken;/' \
		-e 's/^	DEBUG_TRACE("%s", "exiting");/for (; ctx->sq_tail < ctx->sq_head; ctx->sq_tail++) closesocket(ctx->squeue[ctx->sq_tail % ctx->sq_size].sock);/' \
		"$source/src/civetweb.c"
}
