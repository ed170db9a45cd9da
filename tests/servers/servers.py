#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of Debian with threads, as their users start them, natively and by usched-run
with its default options. A real client asks each, then many connections at a time; the
program must end as it should, and leave no process.

  servers.py [NAME]...     default: all; "few": those of FEW
  servers.py --measure RUNS [NAME]...   rows of doc/servers.md

Environment: that of serverlib.
"""

import functools
import re
import sys

from run import Program, Talk, dns, http, main, processor_time

FEW = "memcached apache2 mariadbd slapd haproxy python"
GET = "curl -sS --noproxy '*' http://{here}:{port}/small"
SMALL = {"web/small": "hello"}

ECHO = dict(client="echo hello | socat -t60 - TCP:{here}:{port}", says="hello",
            talk=Talk(b"hello", rb"hello"))
# Some listen before they have read their zones.
LOOK_UP = ("until {} @{{here}} -p {{port}} b.a.test +short | grep -F 192.0.2.1;"
           " do sleep 0.1; done")
CERTIFICATE = ("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 10"
               " -keyout {dir}/key -out {dir}/cert -subj /CN=localhost")
ZONE = """$TTL 60
$ORIGIN a.test.
@ SOA b c 1 60 60 60 60
@ NS b
b A 192.0.2.1
"""
# LDAP: the entry dc=a and all its attributes.
SEARCH = (b"0\x29\2\1\2\x63\x24\4\4dc=a\x0a\1\0\x0a\1\0\2\1\0\2\1\0\1\1\0"
          b"\x87\x0bobjectClass\x30\0")


def sysbench(kind, what, threads, limit="--events={0} --time=0"):
    return (f"sysbench oltp_{kind} --db-driver=mysql --mysql-host={{here}} --mysql-port={{port}}"
            " --mysql-user=root --mysql-db=test --tables=4 --table-size=25000"
            f" --db-ps-mode=disable --percentile=99 --threads={threads}"
            f" {limit.format(2 * threads)} {what}")


def transactions(kind, threads, run):
    before = processor_time(run)
    said = run.shell(sysbench(kind, "run", threads, "--time=4"), "sysbench")
    took = processor_time(run) - before
    return dict(cpu=took / int(re.search(r"transactions: +(\d+)", said).group(1)),
                p99=float(re.search(r"99th percentile: +([\d.]+)", said).group(1)))



TABLE = [
    Program("memcached", "memcached", "memcached -u nobody -l {here} -p {port} -c 20000",
            about="cache, 4 workers",
            client="printf 'version\\r\\nquit\\r\\n' | socat - TCP:{here}:{port}", says="VERSION",
            talk=Talk(b"get k\r\n", rb"VALUE k 0 5\r\nhello\r\nEND\r\n",
                      hello=((b"set k 0 0 5\r\nhello\r\n", rb"STORED\r\n"),))),
    Program("redis", "redis-server redis-tools",
            "redis-server --port {port} --bind {here} --save '' --dir {dir} --io-threads 4"
            " --io-threads-do-reads yes", about="store, io-threads 4",
            client="redis-benchmark -p {port} -n 2000 -c 50 -t set,get --csv", says="GET",
            talk=Talk(b"GET k\r\n", rb"\$5\r\nhello\r\n",
                      hello=((b"SET k hello\r\n", rb"\+OK\r\n"),))),
    Program("apache2", "apache2-bin", "apache2 -D FOREGROUND -f {dir}/conf", about="web server, worker MPM", files={**SMALL, "conf": """
ServerName {here}
Listen {here}:{port}
PidFile {dir}/pid
ErrorLog {dir}/error
DocumentRoot {dir}/web
LoadModule mpm_worker_module /usr/lib/apache2/modules/mod_mpm_worker.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User nobody
Group nogroup
MaxKeepAliveRequests 0
KeepAliveTimeout 600
ServerLimit 2
StartServers 2
ThreadLimit 200
ThreadsPerChild 200
MaxRequestWorkers 400
MinSpareThreads 1
MaxSpareThreads 400
"""}, client=GET, says="hello", talk=http(), idle=300),
    Program("mariadbd", "mariadb-server-core mariadb-client-core sysbench", "mariadbd --no-defaults --user=root"
            " --datadir={dir}/data --socket={dir}/socket --port={port} --bind-address={here}"
            " --max-connections=11000", about="database",
            before="mariadb-install-db --no-defaults --user=root --datadir={dir}/data"
            " --auth-root-authentication-method=normal --skip-test-db && mkdir {dir}/data/test",
            client=" && ".join(sysbench(*each) for each in (
                ("read_only", "prepare", 8), ("read_only", "run", 8), ("read_write", "run", 8),
                ("read_write", "run", 64), ("read_write", "run", 512))),
            says="transactions:", idle=10000, measures={
                f"{kind}, {threads}": functools.partial(transactions, kind, threads)
                for threads in (8, 64, 512) for kind in ("read_only", "read_write")},
            talk=Talk(b"\x09\0\0\0\x03SELECT 1", rb"(?s)\x01\x00\x00\x01\x01.*\xfe\x00\x00\x02\x00",
                      hello=((b"", rb"(?s).*mysql_native_password\0"),
                             (b"\x26\0\0\x01\5\xa2\0\0\0\0\0\1\x21" + bytes(23) + b"root\0\0",
                              rb"(?s)\x07\x00\x00\x02\x00.*")))),
    Program("varnish", "varnish", "varnishd -F -f {dir}/vcl -n {dir}/work"
            " -a {here}:{port} -p thread_pool_max=20000 -s malloc,64m -j none", about="HTTP cache",
            files={"vcl": 'vcl 4.0; backend b { .host = "{here}"; .port = "{web}"; }'},
            client=GET, says="hello", talk=http()),
    Program("slapd", "slapd ldap-utils", "slapd -d 0 -h ldap://{here}:{port} -f {dir}/conf",
            about="directory, mdb", files={"conf": """
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {dir}/pid
database mdb
suffix "dc=a"
rootdn "cn=r,dc=a"
rootpw s
directory {dir}/data
""", "data/.keep": "", "ldif": """
dn: dc=a
objectClass: dcObject
objectClass: organization
dc: a
o: a
"""}, client="ldapadd -x -H ldap://{here}:{port} -D cn=r,dc=a -w s -f {dir}/ldif"
            " && ldapsearch -x -H ldap://{here}:{port} -b dc=a", says="numEntries: 1",
            talk=Talk(SEARCH, rb"(?s).*0\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
                      hello=((b"0\x0c\2\1\1\x60\7\2\1\3\4\0\x80\0", rb"(?s)0\x0c\x02\x01\x01\x61.*"),))),
    Program("knotd", "knot knot-dnsutils", "knotd -c {dir}/conf", ready="udp",
            about="name server", files={"conf": """
server:
    listen: {here}@{port}
    rundir: {dir}
database:
    storage: {dir}
zone:
  - domain: a.test
    file: {dir}/zone
""", "zone": ZONE}, client=LOOK_UP.format("kdig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("unbound", "unbound", "unbound -d -c {dir}/conf", ready="udp", about="resolver",
            files={"conf": """
server:
    interface: {here}@{port}
    num-threads: 4
    chroot: ""
    username: ""
    pidfile: ""
    directory: {dir}
    use-syslog: no
    local-data: "b.a.test. A 192.0.2.1"
"""}, client=LOOK_UP.format("kdig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("haproxy", "haproxy", "haproxy -db -f {dir}/conf", about="proxy, nbthread 4", files={"conf": """
global
    nbthread 4
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
listen a
    bind {here}:{port}
    server b {here}:{web}
"""}, status=-15, client=GET, says="hello", talk=http()),
    Program("stunnel", "stunnel4 openssl", "stunnel4 {dir}/conf", about="TLS before a web server",
            files={"conf": """
foreground = yes
pid =
[a]
accept = {here}:{port}
connect = {here}:{web}
cert = {dir}/cert
key = {dir}/key
""", "front": """
foreground = yes
pid =
[a]
client = yes
accept = {here}:{more}
connect = {here}:{port}
"""}, front="stunnel4 {dir}/front", before=CERTIFICATE, client="curl -sS -k --noproxy '*' https://{here}:{port}/small",
            says="hello", talk=http(tls=True)),
    Program("tinyproxy", "tinyproxy-bin", "tinyproxy -d -c {dir}/conf", about="HTTP proxy",
            files={"conf": """
Port {port}
Listen {here}
Timeout 600
MaxClients 20000
LogLevel Error
"""}, client="curl -sS --noproxy '' --proxy http://{here}:{port} http://{here}:{web}/small",
            says="hello", talk=http("http://{here}:{web}/small", each=1)),
    Program("microsocks", "microsocks", "microsocks -i {here} -p {port}", status=-15,
            about="SOCKS server", says="hello",
            client="curl -sS --noproxy '' --proxy socks5://{here}:{port} http://{here}:{web}/small"),
    Program("dovecot", "dovecot-imapd", "dovecot -F -c {dir}/conf", about="IMAP server", busy=0,
            files={"conf": """
protocols = imap
listen = {here}
base_dir = {dir}/run
log_path = {dir}/log.dovecot
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{dir}/mail/%u
passdb {
  driver = static
  args = nopassword=y
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home={dir}/mail/%u
}
service imap-login {
  inet_listener imap {
    port = {port}
  }
}
"""}, before="mkdir -m 777 {dir}/mail", client="curl -sS imap://u:p@{here}:{port}/", says="INBOX",
            talk=Talk(b"b NOOP\r\n", rb"b OK.*\r\n", hello=(
                (b"", rb"\* OK.*\r\n"), (b"a LOGIN u p\r\n", rb"(?s).*a OK.*\r\n")))),
    Program("icecast2", "icecast2", "icecast2 -c {dir}/conf", about="streams of sound",
            files={"conf": """
<icecast>
  <limits><clients>20000</clients><sources>2</sources></limits>
  <authentication><source-password>s</source-password><admin-password>s</admin-password>
  </authentication>
  <listen-socket><port>{port}</port><bind-address>{here}</bind-address></listen-socket>
  <paths><logdir>{dir}</logdir><webroot>{dir}/web</webroot><adminroot>{dir}</adminroot></paths>
  <security><changeowner><user>nobody</user><group>nogroup</group></changeowner></security>
</icecast>
""", **SMALL}, client=GET, says="hello", talk=http(each=1)),
    Program("rsyslogd", "rsyslog", "rsyslogd -n -i {dir}/pid -f {dir}/conf", about="logs",
            files={"conf": """
$WorkDirectory {dir}
module(load="imtcp" threads="2")
input(type="imtcp" port="{port}" address="{here}")
*.* action(type="omfile" file="{dir}/messages" queue.type="linkedList" queue.workerthreads="2")
"""}, client="for i in $(seq 1000); do logger -T -n {here} -P {port} --rfc3164 x$i; done;"
            " until [ $(wc -l <{dir}/messages) -ge 1000 ]; do sleep 0.1; done; echo all",
            says="all"),
    Program("squid", "squid", "squid -N -f {dir}/conf", about="HTTP proxy, with aufs",
            files={"conf": """
http_port {here}:{port}
http_access allow all
cache_effective_user nobody
cache_effective_group nogroup
cache_dir aufs {dir}/cache 10 4 4
pid_filename {dir}/pid
cache_log {dir}/cache.log
access_log none
coredump_dir {dir}
shutdown_lifetime 1 seconds
minimum_object_size 0
"""}, before="mkdir -m 777 {dir}/cache && squid -N -z -f {dir}/conf",
            client="curl -sS --noproxy '' --proxy http://{here}:{port} http://{here}:{web}/small",
            says="hello", talk=http("http://{here}:{web}/small")),
    Program("coturn", "coturn", "turnserver -n -L {here} -p {port} --no-tls --no-dtls --no-cli"
            " --pidfile {dir}/pid --log-file stdout --userdb {dir}/db -a -u u:p -r a",
            ready="udp", status=-15, about="TURN server", client="turnutils_stunclient -p {port} {here}",
            says=r"(?s)UDP reflexive addr", talk=Talk(
                b"\0\1\0\0\x21\x12\xa4\x42" + b"transactions"[:12], rb"(?s)\x01\x01.*", udp=True)),
    Program("nginx", "nginx", "nginx -c {dir}/conf -p {dir}", about="web server, aio threads",
            files={**SMALL, "conf": """
daemon off;
user nobody nogroup;
pid {dir}/pid;
error_log {dir}/error;
worker_processes 1;
worker_rlimit_nofile 50000;
events { worker_connections 20000; }
http {
	access_log off;
	keepalive_requests 100000000;
	server { listen {here}:{port}; root {dir}/web; aio threads; sendfile off; }
}
"""}, client=GET, says="hello", talk=http()),
    Program("libmicrohttpd", "libmicrohttpd-dev", "{dir}/httpd {port} {dir}/web/small",
            before="cc -O2 {tests}/../help/adopt_httpd.c -lmicrohttpd -pthread -o {dir}/httpd",
            needs="/usr/include/microhttpd.h",
            about="a thread a connection", files=SMALL, client=GET, says="hello", talk=http()),
    Program("civetweb", "civetweb", "civetweb -listening_ports {here}:{port} -document_root {dir}/web"
            " -num_threads 50 -enable_keep_alive yes -access_log_file {dir}/access"
            " -error_log_file {dir}/error", about="web server, 50 threads", busy=40, idle=0, files=SMALL,
            client=GET, says="hello", talk=http()),
    Program("zeromq", "libzmq3-dev", "{dir}/zmq 10000", stop=None, needs="/usr/include/zmq.h",
            before="cc -O2 {tests}/zmq.c -lzmq -pthread -o {dir}/zmq", about="ROUTER and DEALER",
            measures={"": lambda run: dict(cpu=run.whole() / 80000)}),
    Program("python", "python3-minimal", "python3 {tests}/web.py {port} {dir}/web", status=-15,
            about="http.server, a thread a connection", files=SMALL, client=GET, says="hello",
            talk=http()),
    Program("puma", "puma", "puma -q -t 16:16 -b tcp://{here}:{port} {dir}/config.ru", files={
        "config.ru": "run lambda { |env| [200, {'Content-Length' => '5'}, ['hello']] }"},
            about="Ruby, 16 threads", status=-15, client=GET, says="hello",
            talk=http(each=1), busy=16),
    Program("ocaml", "ocaml-nox", "{dir}/echo {port}", needs="ocamlopt",
            about="a thread a connection", before="cp {tests}/echo.ml {dir} && ocamlopt -I +threads unix.cmxa threads.cmxa"
            " {dir}/echo.ml -o {dir}/echo", status=-15, **ECHO),
    Program("perl", "perl", "perl {tests}/echo.pl {port}", about="ithreads", idle=200, status=-15, **ECHO),
    Program("rust", "rustc", "{dir}/echo {port}", about="std::thread", needs="rustc",
            before="rustc -O {tests}/echo.rs -o {dir}/echo", status=-15, **ECHO),
    Program("named", "bind9 bind9-dnsutils", "named -f -c {dir}/conf -p {port}", ready="udp",
            about="name server", files={"conf": """
options {
	directory "{dir}"; listen-on { {here}; }; listen-on-v6 { none; };
	pid-file none; session-keyfile none; recursion no;
};
controls { };
zone "a.test" { type primary; file "{dir}/zone"; };
""", "zone": ZONE}, client=LOOK_UP.format("dig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("mosquitto", "mosquitto mosquitto-clients", "mosquitto -c {dir}/conf", about="MQTT",
            files={"conf": """
listener {port} {here}
allow_anonymous true
user root
"""}, client="mosquitto_pub -h {here} -p {port} -t a -r -m hello"
            " && mosquitto_sub -h {here} -p {port} -t a -C 1", says="hello",
            talk=Talk(b"\xc0\0", rb"\xd0\x00", hello=(
                (b"\x10\x0c\0\4MQTT\4\2\0\0\0\0", rb"\x20\x02\x00\x00"),))),
    Program("transmission", "transmission-daemon transmission-cli", "transmission-daemon -f"
            " -g {dir}/config -p {port} -T -a {here} -P {more} -w {dir} --no-portmap",
            about="BitTorrent", client="transmission-remote {here}:{port} -si", says="Daemon version",
            talk=Talk(b"GET /transmission/rpc HTTP/1.1\r\nHost: {here}\r\n\r\n",
                      rb"(?s)HTTP/1.1 409.*</code></p>")),
    Program("tor", "tor", "tor --hush -f {dir}/conf --DataDirectory {dir}/data", about="onion router", files={
        "conf": "SocksPort {here}:{port}\nDisableNetwork 0\nControlPort {here}:{more}\n"
                "CookieAuthentication 0\n"},
            client="printf 'AUTHENTICATE\\r\\nGETINFO version\\r\\nQUIT\\r\\n' | socat -t9 - TCP:{here}:{more}",
            says="250-version"),
    Program("pdns_server", "pdns-server pdns-backend-bind bind9-dnsutils", "pdns_server --config-dir={dir} --socket-dir={dir}",
            ready="udp", status=-15, about="name server", files={"pdns.conf": """
launch=bind
bind-config={dir}/named.conf
local-address={here}
local-port={port}
receiver-threads=4
daemon=no
guardian=no
""", "named.conf": 'zone "a.test" { type master; file "{dir}/zone"; };\n', "zone": ZONE},
            client=LOOK_UP.format("dig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("pdns_recursor", "pdns-recursor bind9-dnsutils", "pdns_recursor --config-dir={dir} --socket-dir={dir}",
            ready="udp", status=-15, about="resolver", files={"recursor.conf": """
local-address={here}
local-port={port}
threads=4
auth-zones=a.test={dir}/zone
daemon=no
""", "zone": ZONE}, client=LOOK_UP.format("dig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("dnsdist", "dnsdist bind9-dnsutils", "dnsdist --supervised --disable-syslog -C {dir}/conf", ready="udp",
            status=-15, about="DNS load balancer", files={"conf": """
setLocal("{here}:{port}")
addAction("b.a.test", SpoofAction("192.0.2.1"))
"""}, client=LOOK_UP.format("dig"), says="192.0.2.1",
            talk=dns("b.a.test", "192.0.2.1")),
    Program("gearmand", "gearman-job-server gearman-tools", "gearmand -u root -L {here} -p {port} -l {dir}/gear.log --threads 4",
            about="job server", client="gearman -h {here} -p {port} -w -c 1 -f r -- rev & "
            "echo hello | gearman -h {here} -p {port} -f r; wait", says="olleh",
            talk=Talk(b"\0REQ\0\0\0\x10\0\0\0\5hello", rb"\x00RES\x00\x00\x00\x11\x00\x00\x00\x05hello")),
]

if __name__ == "__main__":
    sys.exit(main(TABLE, FEW.split()))
