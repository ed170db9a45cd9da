#!/bin/sh
# SPDX-License-Identifier: MIT
#
# TLS: tls/test_utls.c, which talks to itself, and examples/10-https.c with the clients of
# others: wrk, curl, and openssl s_client with each version, names, protocols, tickets, and
# with certificates of its own. The certificates are made here.
#
#   LONG=1   test_utls with all that it has, also under stress; and
#            testssl.sh, if it is installed, finds nothing above LOW
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
PORT=${PORT:-$((24000 + $$ % 900))}
# shellcheck source=tests/scripts/server.lib
. tests/scripts/server.lib
need openssl
printf '#include <openssl/ssl.h>\n#if OPENSSL_VERSION_NUMBER < 0x30000000\n#error\n#endif\n' |
	$CC -E -x c - >/dev/null 2>&1 || skip "there are no headers of OpenSSL 3"
# As the objects of $B.
cflags=$(sed -n 's/^CFLAGS=//p' "$B/flags" 2>/dev/null)
case $cflags in *-m32* | *musl*) skip 'no OpenSSL for this machine' ;; esac

pki=$dir/pki
mkdir "$pki"

# authority NAME
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 100 \
		-keyout "$pki/$1.key" -out "$pki/$1.pem" -subj "/CN=$1 of tests" \
		-addext keyUsage=critical,keyCertSign,cRLSign 2>"$dir/errors" ||
		die "openssl: $(cat "$dir/errors")"
}

# certify NAME AUTHORITY NAMES
certify() {
	{
		echo "subjectAltName=$3"
		echo "crlDistributionPoints=URI:http://127.0.0.1/crl"
		echo "keyUsage=critical,digitalSignature"
		echo "extendedKeyUsage=serverAuth,clientAuth"
	} >"$pki/$1.ext"
	{
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "/CN=$1.example" &&
			openssl x509 -req -in "$pki/$1.csr" -CA "$pki/$2.pem" \
			-CAkey "$pki/$2.key" -CAcreateserial -days 90 \
			-extfile "$pki/$1.ext" -out "$pki/$1.pem"
	} 2>"$dir/errors" || die "openssl: $(cat "$dir/errors")"
}

authority ca
authority other
certify a ca DNS:a.example,DNS:localhost,IP:127.0.0.1
certify b ca DNS:b.example,DNS:*.wild.example
certify client ca DNS:client.example
certify stranger other DNS:stranger.example

# sessions NAME DIRECTORY COMMAND...: test_utls of a build; its output is in $dir/NAME.
sessions() {
	name=$1 build=$2
	shift 2
	count=$((count + 1))
	if ! $MAKE -s --no-print-directory "B=$build" "CC=$CC" "$build/tls/test_utls" "CFLAGS=$cflags" \
		>"$dir/$name" 2>&1
	then
		fail "$name: test_utls does not build: $(tail -n 20 "$dir/$name")"
	elif ! USCHED_TLS=$pki limited "$@" "$build/tls/test_utls" >"$dir/$name" 2>&1; then
		fail "$name: $(grep -vE '  (OK|RUN|PASSED) |^\[==' "$dir/$name")"
	fi
}

# A scale that is set goes for all.
short=${LONG:+1}
USCHED_TEST_SCALE=${USCHED_TEST_SCALE:-${short:-10}} sessions sessions "$B" env
if [ -n "${LONG-}" ]; then
	cflags="$cflags -DUSCHED_CHECK"
	USCHED_TEST_SCALE=4 sessions stress "$dir/build" env USCHED_STRESS=1
fi

# ask WHAT EXPECTED CURL-ARGUMENT...: by curl; the exit status, and what it got.
ask() {
	what=$1 expected=$2
	shift 2
	same "curl: $what" "$expected" "$(limited curl -sS --cacert "$pki/ca.pem" \
		--resolve "a.example:$port:127.0.0.1" --resolve "b.example:$port:127.0.0.1" \
		--resolve "x.wild.example:$port:127.0.0.1" "$@" 2>"$dir/errors"; echo $?)"
}

# client ARGUMENT...: openssl s_client; what it says is in $dir/said.
client() {
	limited openssl s_client -connect "127.0.0.1:$port" -CAfile "$pki/ca.pem" "$@" \
		</dev/null >"$dir/said" 2>&1
}

# refused WHAT ARGUMENT...
refused() {
	what=$1
	shift
	count=$((count + 1))
	if client "$@"; then
		fail "$what: s_client is served"
	fi
}

clients() {
	ask 'a small file' 'hello0' "https://a.example:$port/small"
	ask 'two files, one connection' 'hellohello0' "https://localhost:$port/small" \
		"https://localhost:$port/small"
	ask 'a large file' 0 -o "$dir/got" "https://localhost:$port/large"
	cmp -s "$dir/large" "$dir/got" || fail 'curl: the large file is another one'
	ask 'no file' 404+0 -o /dev/null -w '%{http_code}+' "https://localhost:$port/none"
	printf 'hello again' >"$dir/small"
	sleep 1.1
	ask 'a file that has changed' 'hello again0' "https://a.example:$port/small"
	printf 'hello' >"$dir/small"
	sleep 1.1
	ask 'a second name' 'hello0' "https://b.example:$port/small"
	ask 'a wildcard' 'hello0' "https://x.wild.example:$port/small"
	ask 'an address' 'hello0' "https://127.0.0.1:$port/small"
	ask 'TLS 1.2' 'hello0' --tls-max 1.2 "https://localhost:$port/small"
	ask 'no authority' 60 --cacert "$pki/other.pem" "https://localhost:$port/small"
	ask 'without TLS' 52 "http://localhost:$port/small"
	client -servername b.example -verify_hostname b.example -verify_return_error
	has 'Verify return code: 0 (ok)' "$dir/said"
	client -servername a.example -alpn h2,http/1.1
	has '^ALPN protocol: http/1.1' "$dir/said"
	refused 'another protocol' -alpn h2
	refused 'TLS 1.1' -tls1_1 -cipher 'ALL:@SECLEVEL=0'
	refused 'weak ciphers' -tls1_2 -cipher 'eNULL:aNULL:@SECLEVEL=0'
	client -tls1_2 -reconnect
	same 'sessions resumed' 5 "$(grep -c '^Reused, TLSv1.2' "$dir/said")"
	for option in out in; do
		printf 'GET /small HTTP/1.1\r\nConnection: close\r\n\r\n' |
			limited openssl s_client -connect "127.0.0.1:$port" -tls1_3 -ign_eof \
			-sess_$option "$dir/ticket" >"$dir/said" 2>&1
	done
	has '^Reused, TLSv1.3' "$dir/said"
	renegotiate
	many_requests
}

# By wrk, over connections that go on.
many_requests() {
	command -v wrk >/dev/null || return
	limited wrk -t 1 -c 20 -d 1 "https://localhost:$port/small" >"$dir/wrk" 2>&1
	has ' [1-9][0-9]* requests in' "$dir/wrk"
	same 'wrk: errors' '' "$(grep -E 'Non-2xx|Socket errors' "$dir/wrk")"
}

# openssl s_client renegotiates for a line "R". Its input ends when it has the answer.
renegotiate() {
	rm -f "$dir/ended"
	: >"$dir/said"
	{
		echo R
		until grep -q 'no renegotiation' "$dir/said" || [ -e "$dir/ended" ]; do
			sleep 0.1
		done
	} | {
		limited openssl s_client -connect "127.0.0.1:$port" -tls1_2 >"$dir/said" 2>&1
		: >"$dir/ended"
	}
	has 'no renegotiation' "$dir/said"
}

# The certificate that the server presents.
presented() {
	client -servername a.example
	sed -n 's/^subject=CN = //p' "$dir/said"
}

presents() {		# SUBJECT
	[ "$(presented)" = "$1" ]
}

# The server's files change; SIGHUP makes it read them. A connection goes on.
reload() {
	rm -f "$dir/reloaded"
	{
		printf 'GET /small HTTP/1.1\r\n\r\n'
		until_true 60 test -e "$dir/reloaded"
		printf 'GET /small HTTP/1.1\r\nConnection: close\r\n\r\n'
	} |
		limited openssl s_client -connect "127.0.0.1:$port" -quiet -ign_eof \
		>"$dir/goes-on" 2>"$dir/errors" &
	goes_on=$!
	until_true 600 grep -q hello "$dir/goes-on"
	same 'the certificate' a.example "$(presented)"
	cp "$pki/client.pem" "$dir/chain.pem"
	kill -HUP "$server"
	mismatch='certificates stay as they are: key values mismatch'
	until_true 600 grep -q "$mismatch" "$dir/errors.$server"
	has "$mismatch" "$dir/errors.$server"
	same 'the certificate where the key is wrong' a.example "$(presented)"
	cp "$pki/client.key" "$dir/key.pem"
	kill -HUP "$server"
	until_true 600 presents client.example
	same 'the certificate after a reload' client.example "$(presented)"
	: >"$dir/reloaded"
	wait $goes_on
	same 'answers over a reload' 2 "$(grep -c '^hello' "$dir/goes-on")"
}

# Its word on the server: nothing that it calls worse than LOW.
testssl_says() {
	limited testssl --quiet --warnings batch --color 0 --nodns min \
		--add-ca "$pki/ca.pem" --severity MEDIUM --jsonfile "$dir/testssl.json" \
		"https://localhost:$port/small" </dev/null >"$dir/testssl" 2>&1
	count=$((count + 1))
	[ -s "$dir/testssl.json" ] && grep -q '^ *Done ' "$dir/testssl" ||
		fail "testssl: $(tail -n 20 "$dir/testssl")"
	grep -B 4 -A 3 -E '"(MEDIUM|HIGH|CRITICAL)"' "$dir/testssl.json" >"$dir/found" &&
		fail "testssl: $(cat "$dir/found")"
}

https=$B/examples/10-https
if [ ! -x "$https" ]; then
	note "no server tried, there is no $https"
elif ! command -v curl >/dev/null; then
	note 'no server tried, there is no curl'
else
	cp "$pki/a.pem" "$dir/chain.pem"
	cp "$pki/a.key" "$dir/key.pem"
	printf 'hello' >"$dir/small"
	seq 300000 >"$dir/large"
	start "$https" "$dir" "$dir/chain.pem" "$dir/key.pem" "$pki/b.pem" "$pki/b.key" ||
		die 'the server does not get ready'
	clients
	if [ -n "${LONG-}" ] && command -v testssl >/dev/null; then
		testssl_says
	fi
	reload
	stop "$server" || fail "status $stop_status after SIGTERM"
fi

conclude "$count checks, $(openssl version | cut -d ' ' -f 1,2)"
