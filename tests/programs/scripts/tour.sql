-- A walk through sqlite: a page cache, statements, sorting, full text, JSON, recursion, a dump and an integrity check.
PRAGMA journal_mode = WAL;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, weight REAL, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO item SELECT i, 'name ' || (i * 7919 % 60013), i * 0.25, zeroblob(i % 300) FROM n;
CREATE INDEX by_name ON item(name);
SELECT count(*), sum(length(note)), min(name), max(name) FROM item;
DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET note = hex(name), weight = weight * 2 WHERE id % 5 = 0;
SELECT substr(name, 1, 6) AS head, count(*), round(sum(weight), 2) FROM item GROUP BY head ORDER BY 2 DESC, 1 LIMIT 12;
SELECT a.id, b.id FROM item a JOIN item b ON a.name < b.name AND b.id = a.id + 1 ORDER BY a.name DESC, a.id LIMIT 8;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT group_concat(name, ' ') FROM item GROUP BY id / 40;
SELECT count(*) FROM words WHERE words MATCH 'name AND 77*';
SELECT substr(snippet(words, 0, '[', ']', '..', 6), 1, 60) FROM words WHERE words MATCH '4242' ORDER BY rowid LIMIT 3;
SELECT count(*), sum(json_extract(value, '$.w'))
  FROM json_each((SELECT json_group_array(json_object('w', weight, 'n', name)) FROM item));
WITH RECURSIVE q(n, board) AS (SELECT 0, '' UNION ALL SELECT n + 1, board || char(65 + c.i) FROM q,
  (WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 5) SELECT i FROM c) c
  WHERE n < 6 AND instr(board, char(65 + c.i)) = 0) SELECT count(*), max(board) FROM q WHERE n = 6;
SELECT id, sum(weight) OVER (ORDER BY id ROWS 3 PRECEDING), rank() OVER (ORDER BY length(note), id)
  FROM item ORDER BY id LIMIT 9;
BEGIN; DROP INDEX by_name; DELETE FROM item WHERE id > 100; ROLLBACK;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), total(weight) FROM item;
