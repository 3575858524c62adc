#!/bin/bash
# SPDX-License-Identifier: MIT
# rediss://: a server with a certificate, which is checked against a CA and the host's name, and a
# server that requires a certificate of the client.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
. "$srcdir/tests/mount/pool_trouble.sh"
requires openssl
POOL_NAME=farm
POOL=pool=farm,pool.bps=8M,pool.lease=300ms
tls() { host_up 1 -o "$POOL,pool.server=rediss://farm.test:6380$1"; }
if ! ldd "$BIN/ratefs-pool" | grep -q hiredis_ssl; then
	tls ""
	within 5s host_said 1 "rediss://farm.test:6380: this ratefs-pool was built without TLS.*; nothing is admitted" ||
		fail "not told: $(cat "$TMP/log1")"
	host_down 1
	skip "hiredis has no TLS here"
fi

cd "$TMP" || exit 1
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2>/dev/null || fail "no CA"
certificate() {	# FILE NAME
	printf 'subjectAltName=DNS:%s\n' "$2" >"$1.ext"
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null || fail "no request"
	openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "$1.ext" \
		-out "$1.pem" 2>/dev/null || fail "no certificate"
}
certificate server farm.test
certificate other other.test
certificate client ratefs.test
chmod 600 ./*.key
name farm.test 127.0.0.1
server() {	# CERTIFICATE AUTH_CLIENTS
	redis_up --tls-port 6380 --tls-cert-file "$TMP/$1.pem" --tls-key-file "$TMP/$1.key" --tls-ca-cert-file "$TMP/ca.pem" \
		--tls-auth-clients "$2"
}

server server no
tls ",pool.tls_ca=$TMP/ca.pem"
within 10s mode_is leased || fail "no lease by TLS: $(cat "$TMP/log1")"
rates 1 1
rates 3 1
near sum $((8 << 20)) 8 "by TLS"
trouble "the server is killed" "farm.test:6380: Connection refused" share redis_down 9
over server server no
host_down 1
mark() { MARK=0 && : >"$TMP/log1"; }	# from now on, each trouble begins with a new daemon

# No known CA has signed its certificate; the certificate has another name; the server requires one
# of the client.
trouble "an unknown CA" "TLS: .*certificate" stop tls ""
host_down 1
redis_down
server other no
trouble "another name" "TLS: .*[Hh]ostname mismatch" stop tls ",pool.tls_ca=$TMP/ca.pem"
redis_down
over server server no
host_down 1
redis_down
server server yes
trouble "no certificate of ours" "farm.test:6380: .*" stop tls ",pool.tls_ca=$TMP/ca.pem"
host_down 1
tls ",pool.tls_ca=$TMP/ca.pem,pool.tls_cert=$TMP/client.pem,pool.tls_key=$TMP/client.key"
within 10s mode_is leased || fail "no lease with a certificate: $(cat "$TMP/log1")"
host_down 1
tls ",pool.tls_ca=$TMP/none.pem"
within 5s host_said 1 "tls_ca: $TMP/none.pem: .*; nothing is admitted" || fail "not told: $(cat "$TMP/log1")"
host_down 1
redis_down
says 'tls_ca: TLS needs server=rediss' "$RATEFS" "$SRC" "$MNT" -o "$POOL,pool.server=redis://farm.test,pool.tls_ca=/x"
