#!/bin/bash
# SPDX-License-Identifier: MIT
#
# sqlite3 under the preload: a workload in memory and the same in a file; query results and dumps must be the same.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need sqlite3 sqlite3

cat >"$work/load.sql" <<'END'
pragma cache_size = -20000;
create table item(id integer primary key, class int, price real, name text, body blob);
create table sale(id integer primary key, item int references item(id), n int, day int);
begin;
with recursive c(x) as (values(1) union all select x + 1 from c where x < 30000)
insert into item select x, x * 7919 % 101, x % 977 / 7.0, printf('item %08d %s', x * 31 % 30000, hex(x * x)), zeroblob(x % 300) from c;
with recursive c(x) as (values(1) union all select x + 1 from c where x < 80000)
insert into sale select x, x * 104729 % 30000 + 1, x % 9 + 1, x * 17 % 365 from c;
commit;
create index item_class on item(class, price);
create index sale_item on sale(item, day);
create view best as select i.class, sum(s.n * i.price) as total from sale s join item i on i.id = s.item group by i.class;
select class, round(total, 3) from best order by total desc limit 10;
select day, sum(n), sum(sum(n)) over (order by day rows between 6 preceding and current row)
from sale group by day order by day limit 20;
select count(*), group_concat(name, ',') from (select name from item where name like '%77%' order by name limit 500);
select json_group_object(class, json_array(n, p))
from (select class, count(*) n, round(avg(price), 4) p from item group by class order by class);
update item set name = name || printf(' v%d', id), body = zeroblob(length(body) * 3) where id % 5 = 0;
delete from sale where day between 100 and 200;
delete from item where id % 11 = 0;
create temp table gone as select id from sale where item not in (select id from item);
delete from sale where id in (select id from gone);
select count(*), sum(n), sum(day) from sale;
create virtual table words using fts5(t);
insert into words select name from item limit 10000;
select count(*) from words where words match '1F* or item';
vacuum;
pragma integrity_check;
END
cat >"$work/script" <<'END'
set -eu
sqlite3 :memory: ".read $1/load.sql" ".once memory.dump" ".dump"
sqlite3 file.db "pragma journal_mode=wal" ".read $1/load.sql"
sqlite3 file.db ".once file.dump" ".dump"
for i in 1 2 3 4; do sqlite3 file.db ".timeout 60000" "begin immediate; update sale set n = n + 1; commit;" & done
wait
sqlite3 file.db "select sum(n) from sale" "pragma integrity_check"
sqlite3 again.db ".read file.dump"
sqlite3 again.db "pragma integrity_check" .dump | cksum
cksum memory.dump file.dump
grep -v '^PRAGMA' memory.dump | cksum
END

bound sqlite3 --version
limit=60 same sqlite3 bash "$work/script" "$work"
