-- sqlite: a database in memory: inserts, indexes, joins, aggregates, text functions. Prints checksums.
-- Measures a program that allocates for every row and cursor but keeps most of its data in page-sized blocks.
PRAGMA journal_mode = OFF;
PRAGMA temp_store = MEMORY;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, bucket INTEGER, weight INTEGER);
WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 250000)
INSERT INTO item SELECT i, printf('name-%x-%d', (i * 2654435761) % 4294967296, i), i % 997, (i * 48271) % 65537 FROM number;
CREATE INDEX item_by_bucket ON item (bucket, weight);
CREATE INDEX item_by_name ON item (name);
CREATE TABLE total AS SELECT bucket, count(*) AS many, sum(weight) AS weight, group_concat(substr(name, 6, 8)) AS names
  FROM item GROUP BY bucket;
SELECT count(*), sum(length(names)), sum(weight) FROM total;
SELECT sum(a.weight * b.weight % 1009) FROM item a JOIN item b ON b.bucket = a.bucket AND b.weight = a.weight + 1;
UPDATE item SET name = upper(name) || '-' || bucket WHERE weight % 3 = 0;
DELETE FROM item WHERE weight % 5 = 0;
SELECT count(*), sum(length(name)), min(name), max(name) FROM item;
SELECT sum(instr(name, 'A')), count(DISTINCT substr(name, 6, 4)) FROM item;
