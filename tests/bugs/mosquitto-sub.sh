# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='mosquitto_sub 2.1.2'
bug='#3175: the handler of a signal takes a lock that its thread has'
bad='mosquitto 2.1.2'
libs='-lcjson -lcrypto'
threads=-DWITH_THREADING

build() {
	m=$source
	object $threads -DVERSION='"2"' -Dmain=client_main -I"$m" -I"$m/include" \
		-I"$m/lib" -I"$m/client" -I"$m/deps" -I"$m/common" -I"$m/libcommon" "$m"/lib/*.c $(ls "$m"/libcommon/*.c "$m/common/json_help.c" 2>/dev/null) "$m/client/sub_client.c" \
		"$m/client/sub_client_output.c" "$m/client/client_shared.c" \
		"$m/client/client_props.c"
	object "$here/mosquitto-sub.c"
}

# Without threads there are no locks.
repair() {
	threads=
}
