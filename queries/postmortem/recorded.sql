-- What was recorded: rows of each source by kind, and from when to when
-- portable
-- column worker: engine instance; NULL where the source does not tell
-- column source: what kind of collector wrote them
-- column stream: source instance
-- column kind: of the event table
-- column row_count: how many rows
-- column lives: lives of the worker among them
-- column first_ts: the earliest time, in UTC; NULL where the source tells no time
-- column last_ts: the latest
-- column untimed_rows: rows without a time
SELECT
    worker, source, stream, kind, COUNT(*) AS row_count, COUNT(DISTINCT incarnation) AS lives, MIN(ts) AS first_ts,
    MAX(ts) AS last_ts, COUNT(*) - COUNT(ts) AS untimed_rows
FROM events
GROUP BY worker, source, stream, kind
ORDER BY worker NULLS LAST, source, stream, kind;
