# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='curl 7.88.1'
bug='CVE-2023-27537: two threads free one entry of a shared list of HSTS'
bad='curl 7.88.1'
mode=-fsanitize=thread
libs='-lssl -lcrypto'

build() {
	[ -f "$source/lib/curl_config.h" ] || (cd "$source" && CC=$CC ./configure -q \
		--with-openssl --without-zlib --without-brotli --without-zstd \
		--without-libpsl --without-libidn2 --without-nghttp2 --without-librtmp \
		--disable-ldap --disable-ftp --disable-smtp --disable-imap --disable-pop3 \
		--disable-rtsp --disable-telnet) || return
	object -DHAVE_CONFIG_H -DBUILDING_LIBCURL -DCURL_STATICLIB -I"$source/include" \
		-I"$source/lib" $(find "$source/lib" -name '*.c') "$here/curl-hsts.c"
}

# What is locked while files are read is locked while a callback is, and in each transfer.
repair() {
	lock='Curl_share_lock(data, CURL_LOCK_DATA_HSTS, CURL_LOCK_ACCESS_SINGLE)'
	unlock='Curl_share_unlock(data, CURL_LOCK_DATA_HSTS)'
	sed -i "s/result = Curl_hsts_loadcb.*/$lock; & $unlock;/" "$source/lib/transfer.c"
	sed -i "s/if(\(Curl_hsts(data->hsts.*\)) {/bool sts = ($lock, \1); $unlock; if(sts) {/" \
		"$source/lib/url.c"
}
