-- A walk through postgres: hashes, sorts, indexes, JSON, recursion, compiled expressions, parallel workers, an error.
create table item as
  select i as id, md5(i::text) as name, (i * 7919) % 1000 as kind,
    jsonb_build_object('n', i, 's', repeat('x', i % 90)) as doc
  from generate_series(1, 120000) i;
analyze item;
create index on item using btree (name);
create index on item using gin (doc);
select count(*), sum(length(doc->>'s')) from item;
select kind, count(*), max(name) from item group by kind order by max(name) limit 9;
select count(*) from item a join item b on a.kind = b.kind and b.id < 60 where a.name > '8';
select md5(string_agg(name, ',' order by name desc)) from item;
select md5(jsonb_agg(doc order by id)::text) from item where id % 5 = 0;
with recursive t(n, s) as (select 1, 'a' union all select n + 1, left(s || n, 200) from t where n < 4000)
  select max(length(s)), count(*) from t;
do $$ declare t text := ''; begin
  for i in 1..20000 loop t := right(t || md5(i::text), 4000); end loop;
  raise notice '%', md5(t); end $$;
set jit_above_cost = 0; set jit_inline_above_cost = 0; set jit_optimize_above_cost = 0;
select sum(sqrt(id) * kind)::bigint, count(*) filter (where name ~ '^[a-c]+[0-9]') from item;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0;
set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
select kind % 10 as k, count(distinct name),
  percentile_cont(0.5) within group (order by id) from item group by k order by k;
select 1 / 0;
vacuum full item;
select count(*), md5(max(name) || min(name)) from item;
