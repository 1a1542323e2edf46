# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# One pass of ordinary tests where something is missing: each script beside this file sources it and calls ordinary. What is missing is
# in LULL_CAPS or LULL_RETURN, or is taken away by programs/confine.c: confined HOW.
#
# The selection: the corners of the standard calls; memory of each kind of block that goes back while a program waits; waits that end
# while a heap is swept; sqlite3, python3 and redis with the same answers as without the library.
# shellcheck source=tests/interpose/common.bash
. "$(dirname "${BASH_SOURCE[0]}")/../interpose/common.bash"
tests=$here/..
passed=0
missing=""
# redis wants many descriptors and threads: a pass that has none says no
with_redis=yes
chmod 755 "$work"

# SOURCE [FLAGS...]: a program that is linked to nothing of ours
compile() {
	cc -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -pthread -I"$tests/../include" "${@:2}" \
		-o "$work/$(basename "$1" .c)" "$tests/$1"
}

# HOW...: from here on programs under the library run so confined
confined() {
	compile fallback/programs/confine.c
	"$work/confine" "$@" -- true >"$work/log" || skip "$(cat "$work/log")"
	export TEST_UNDER="$work/confine $* --"
}

# NAME COMMAND...: it may end the shell it runs in
step() {
	local name=$1 status=0
	shift
	("$@") >"$work/log" 2>&1 || status=$?
	case $status in
	0) passed=$((passed + 1)) ;;
	*)
		cat "$work/log"
		fail "$name: status $status"
		;;
	esac
}

memory_goes_back() {
	local size
	compile idle/programs/inline.c
	for size in 100 3000 50000 300000 3000000; do step "memory of $size bytes goes back" preload "$work/inline" $size own; done
	LULL_SCAVENGER=0 step "memory goes back without a thread" preload "$work/inline" 3000 own
}

# Under a filter swept could not look which OS pages are resident, and a program that only counts takes its place.
waits_end() {
	local way
	case ${TEST_UNDER:-} in *" eperm --" | *" enosys --" | *" kill --")
		compile stress/park_exit.c -DSTRESS_STANDARD_NAMES
		STRESS_SCALE=5 step "threads that wait and end" preload "$work/park_exit"
		return
		;;
	esac
	compile idle/programs/swept.c
	for way in wake handler-frees; do step "waits that end: $way" preload "$work/swept" $way; done
}

# Blocks of 1 to 400 KiB come and go; python's own allocator is off.
write_python() {
	cat >"$work/program.py" <<'END_OF_PROGRAM'
import json, random, zlib
random.seed(7)
kept = {}
for i in range(6000):
    kept[random.randrange(200)] = bytes([i % 251]) * random.randrange(1, 400000 if i % 10 == 0 else 4000)
    if i % 1000 == 999:
        text = json.dumps({k: len(v) for k, v in sorted(kept.items())})
        print(len(text), zlib.crc32(b"".join(v for _, v in sorted(kept.items()))))
        kept = {k: v for k, v in kept.items() if k % 3}
END_OF_PROGRAM
}

write_sql() {
	cat >"$work/program.sql" <<'END_OF_PROGRAM'
create table t(id integer primary key, class int, name text, body blob);
with recursive c(x) as (values(1) union all select x + 1 from c where x < 20000)
insert into t select x, x * 7919 % 101, printf('item %08d', x * 31 % 30000), zeroblob(x % 3000) from c;
create index t_class on t(class, name);
select class, count(*), sum(length(body)) from t group by class order by 3 desc limit 20;
update t set body = zeroblob(length(body) * 3) where id % 5 = 0;
delete from t where id % 11 = 0;
select count(*), sum(length(body)), group_concat(name) from t where class < 10;
pragma integrity_check;
END_OF_PROGRAM
}

real_programs() {
	write_python
	write_sql
	if [ -x /usr/bin/python3 ]; then
		PYTHONMALLOC=malloc step python3 same python3 /usr/bin/python3 "$work/program.py"
	else
		missing="python3"
	fi
	if command -v sqlite3 >/dev/null; then step sqlite3 same sqlite3 sqlite3 :memory: ".read $work/program.sql"; else missing+=" sqlite3"; fi
	[ $with_redis = yes ] || return 0
	if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then redis; else missing+=" redis"; fi
}

redis_says() {
	[ "$(redis-cli -s "$work/socket" "${@:2}")" = "$1" ]
}

# A server that many keys come to and leave, twice, with idle moments.
redis() {
	local round
	start redis redis-server --port 0 --unixsocket "$work/socket" --save "" --enable-debug-command yes --dir /
	wait_for 30 redis_says PONG ping || { tail "$work/redis.log"; fail "redis-server does not answer"; }
	loaded "$server" || fail "redis-server without the library"
	for round in 1 2; do
		step "redis, keys" redis_says OK debug populate 60000 "key$round" 500
		step "redis, keys there" redis_says $((60000)) dbsize
		step "redis, keys gone" redis_says OK flushall sync
		sleep 0.3
	done
	redis-cli -s "$work/socket" shutdown nosave >/dev/null 2>&1 || true
	ends_well redis-server
	passed=$((passed + 1))
}

ordinary() {
	step "standard calls" "$tests/api/run"
	memory_goes_back
	waits_end
	real_programs
	count
}

count() {
	echo "$passed passed, 0 failed, $(wc -w <<<"$missing") skipped${missing:+ (not installed: $missing)}"
}
