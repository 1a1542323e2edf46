#!/bin/bash
# SPDX-License-Identifier: MIT
#
# PostgreSQL under the preload: initdb, a server that forks a process per connection, pgbench, parallel queries. The answers to a
# fixed list of queries must be the same as without it. It listens on a socket file in the test's folder only, and runs as an
# unprivileged user: it refuses root.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/postgres" ] || skip "no program postgres (package postgresql)"
need pgbench postgresql
need setpriv util-linux

# The user of the server must be able to write its folder.
user=()
if [ "$(id -u)" -eq 0 ]; then
	user=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
	chown -R nobody "$work"
	chmod 755 "$work"
fi
export PGHOST=$work PGUSER=tester PGDATABASE=postgres PGOPTIONS='-c client_min_messages=warning'

start_server() {
	"$1" "postgres.$1" "${user[@]}" "$bin/postgres" -D "$work/data" -k "$work" -c listen_addresses= -c fsync=off -c shared_buffers=32MB \
		-c max_connections=40 -c autovacuum_naptime=1s -c dynamic_shared_memory_type=mmap
	wait_for 60 "$bin/pg_isready" -q || { tail "$work/postgres.$1.log"; fail "postgres does not answer ($1)"; }
}

stop_server() {
	kill -INT "$server"
	ends_well postgres
	if grep -E 'terminated by signal|PANIC|TRAP' "$work"/postgres.start*.log; then fail "a process of postgres crashed"; fi
}

cat >"$work/queries" <<'END'
create table t as select i, i * 7919 % 1009 as k, repeat(md5(i::text), i % 20) as s from generate_series(1, 60000) i;
create index on t(k);
analyze t;
select count(*), sum(length(s)), md5(string_agg(md5(s), '' order by i)) from t;
select k, count(*), max(length(s)) from t group by k order by 2 desc, 1 limit 10;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select count(*) from t a join t b using (k) where a.i % 100 = 0 and length(b.s) > 300;
select k % 10, sum(i), percentile_cont(0.5) within group (order by length(s)) from t group by 1 order by 1;
select length(json_agg(t)::text), (jsonb_agg(to_jsonb(t)) -> 77 ->> 'k') from t where i <= 3000;
do $$ declare r record; a text[] := '{}'; begin
	for r in select s from t where i <= 3000 loop a := a || r.s; end loop;
	for n in 1 .. 200 loop begin perform 1 / (n % 2); exception when division_by_zero then null; end; end loop;
	raise warning 'array of %', array_length(a, 1);
end $$;
select count(*) from regexp_split_to_table((select string_agg(s, ' ') from t where i < 2000), '[0-9a]+');
with recursive f(n, a, b) as (values (1, 0::numeric, 1::numeric) union all select n + 1, b, a + b from f where n < 3000)
select md5(b::text) from f order by n desc limit 1;
update t set s = s || 'x' where i % 3 = 0;
vacuum full t;
select md5(string_agg(s, '' order by i)) from t;
END

# workload HOW: queries and answers; HOW starts programs (plain or preload), the server is started in the same way
workload() {
	local starter=start_plain
	[ "$1" = plain ] || starter=start
	rm -rf "$work/data"
	$1 "${user[@]}" "$bin/initdb" -D "$work/data" -U tester -A trust --no-sync --no-locale -E UTF8 >"$work/initdb.$1" 2>&1 ||
		{ tail "$work/initdb.$1"; fail "initdb ($1)"; }
	start_server $starter
	[ "$1" = plain ] || check_children
	$1 "${user[@]}" "$bin/psql" -X -q -A -v ON_ERROR_STOP=1 -f "$work/queries" >"$work/answers.$1" 2>&1 ||
		{ tail "$work/answers.$1"; fail "psql ($1)"; }
}

# The library must be in the server and in each process it forked.
check_children() {
	local pid pids
	pids=$(pgrep -P "$server")
	for pid in $server $pids; do loaded "$pid" || is_gone "$pid" || fail "a process of postgres without the library"; done
	[ "$(wc -w <<<"$pids")" -ge 4 ] || fail "postgres has too few processes"
}

value() {
	"$bin/psql" -X -q -t -A -c "$1"
}

need pgrep procps
bound "$bin/postgres" --version
bound "$bin/psql" --version
workload plain
stop_server
workload preload
compare "answers" answers.plain answers.preload

preload "${user[@]}" "$bin/pgbench" -i -q -s 1 >"$work/pgbench" 2>&1 || { tail "$work/pgbench"; fail "pgbench -i"; }
preload "${user[@]}" "$bin/pgbench" -n -c 8 -j 2 -t 150 >"$work/pgbench" 2>&1 || { tail "$work/pgbench"; fail "pgbench"; }
# -C: a process is forked for each transaction
preload "${user[@]}" "$bin/pgbench" -n -c 4 -j 2 -t 40 -C >>"$work/pgbench" 2>&1 || { tail "$work/pgbench"; fail "pgbench -C"; }
[ "$(grep -c 'number of failed transactions: 0' "$work/pgbench")" -eq 2 ] || { cat "$work/pgbench"; fail "failed transactions"; }
[ "$(value 'select count(*) from pgbench_history')" = 1360 ] || fail "transactions are missing"
[ "$(value 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)')" = t ] ||
	fail "balances differ"
stop_server
echo "same: postgres, $(wc -l <"$work/answers.plain") lines; 1360 transactions"
