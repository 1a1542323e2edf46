#!/bin/bash
# SPDX-License-Identifier: MIT
#
# redis-server under the preload: a fixed load must leave the same data as without it, also after a save by a forked child and a
# restart; then redis-benchmark. The server listens on a socket file in the test's folder only.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need redis-server redis-server
need redis-cli redis-tools
need redis-benchmark redis-tools
bound redis-server --version
bound redis-cli --version

socket=$work/socket
cli=(redis-cli -s "$socket")

awk 'BEGIN {
	seed = 1
	for (i = 0; i < 40000; i++) {
		seed = (seed * 16807) % 2147483647
		k = seed % 5000
		size = seed % 997
		value = sprintf("%*d", i % 20 ? size + 1 : size * 8 + 1, seed)
		if (i % 7 == 0) print "HSET hash" k % 500 " field" size " \"" value "\""
		else if (i % 7 == 1) print "RPUSH list" k % 300 " \"" value "\""
		else if (i % 7 == 2) print "ZADD zset" k % 200 " " size " member" k
		else if (i % 7 == 3) print "APPEND str" k % 900 " \"" value "\""
		else if (i % 7 == 4) print "DEL str" (k + 17) % 900
		else print "SET key" k " \"" value "\""
		if (i % 5000 == 4999) print "EVAL \"local t = {} for i = 1, 3000 do t[i] = string.rep(tostring(i), i % 9) end return #table.concat(t)\" 0"
	}
}' >"$work/commands"

# start_server HOW: start or start_plain
start_server() {
	"$1" "redis.$1" redis-server --port 0 --unixsocket "$socket" --dir "$work/data" --save "" --enable-debug-command yes \
		--maxmemory-policy allkeys-lru --lazyfree-lazy-user-del yes
	wait_for 30 server_answers || { tail "$work/redis.$1.log"; fail "redis-server does not answer ($1)"; }
}

server_answers() {
	[ "$("${cli[@]}" ping)" = PONG ]
}

saved() {
	"${cli[@]}" info persistence | grep -q '^rdb_bgsave_in_progress:0'
}

stop_server() {
	"${cli[@]}" shutdown "$1" || true
	ends_well redis-server
}

# workload HOW: the server's answers to the commands, and a digest of what it holds before and after a restart
workload() {
	rm -rf "$work/data"
	mkdir "$work/data"
	start_server "$1"
	[ "$1" != start ] || loaded "$server" || fail "redis-server without the library"
	"${cli[@]}" <"$work/commands" | cksum
	"${cli[@]}" bgsave >/dev/null
	wait_for 60 saved || fail "the save does not end ($1)"
	"${cli[@]}" info persistence | grep '^rdb_last_bgsave_status'
	"${cli[@]}" debug digest
	stop_server nosave
	start_server "$1"
	"${cli[@]}" debug digest
	"${cli[@]}" dbsize
	"${cli[@]}" memory purge
	"${cli[@]}" flushall async
	"${cli[@]}" dbsize
}

workload start_plain >"$work/data.plain"
stop_server nosave
workload start >"$work/data.preload"
compare "data" data.plain data.preload

preload redis-benchmark -s "$socket" -q -n 8000 -c 40 -P 8 -r 10000 -d 300 -t set,get,incr,lpush,rpop,hset,zadd,spop,lrange_100,mset \
	>"$work/benchmark" 2>&1 || { tail "$work/benchmark"; fail "redis-benchmark"; }
[ "$(tr '\r' '\n' <"$work/benchmark" | grep -c 'requests per second')" -ge 10 ] ||
	{ cat "$work/benchmark"; fail "redis-benchmark left tests out"; }
preload redis-benchmark -s "$socket" -q -n 8000 -c 20 --threads 2 -t set,get >/dev/null 2>&1 || fail "redis-benchmark with threads"
server_answers || fail "redis-server does not answer after the benchmark"
stop_server save
echo "same: redis, $(wc -l <"$work/commands") commands; benchmark done"
