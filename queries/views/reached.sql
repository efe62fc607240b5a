-- How far each stream of a worker had come at each of its failures, or at a given instant: what was known by then
-- column worker: engine instance
-- column life: the life of it that is asked about, by the name that the failure's own stream gives it
-- column failure: error type, gate, fault code, ...; NULL where an instant was given, or nothing failed: then the end of the record
-- column failure_stream: source of the failure's row
-- column failure_seq: its place in that stream
-- column failure_line: line of the source that tells it
-- column at_ts: the instant, in UTC; NULL where the source tells no time
-- column stream: a source that tells of that worker
-- column incarnation: the life of the worker by the name that this stream gives it
-- column last_seq: place in the stream of its last row by then
CREATE MACRO reached(instant) AS TABLE
-- The clock of a stream may jump back: what stands behind a row in it was not known before that row.
WITH told AS MATERIALIZED (
    SELECT stream, worker, incarnation, source = 'log' AS is_log, moment, max(seq) AS seq
    FROM (
        SELECT stream, worker, incarnation, source, seq, max(ts) OVER (PARTITION BY stream ORDER BY seq) AS moment
        FROM events
        WHERE worker IS NOT NULL AND kind NOT IN ('loss', 'collector')
    )
    GROUP BY ALL
),

life AS (
    SELECT stream, worker, incarnation, bool_and(is_log) AS is_log, max(seq) AS last_seq, max(moment) AS last_ts
    FROM told
    GROUP BY stream, worker, incarnation
),

-- The first failure of a life that it did not survive; of what it survived, the first.
failed AS MATERIALIZED (
    SELECT failure.*, life.is_log
    FROM failure
    INNER JOIN life USING (stream, worker)
    WHERE failure.incarnation IS NOT DISTINCT FROM life.incarnation
    QUALIFY row_number() OVER (
        PARTITION BY worker, failure.incarnation, life.is_log
        ORDER BY failure.soft, failure.ts NULLS LAST, failure.stream, failure.seq
    ) = 1
),

asked AS (
    SELECT
        worker, incarnation AS life, name AS failure, stream AS failure_stream, seq AS failure_seq, line AS failure_line,
        ts AS at_ts, is_log
    FROM failed
    WHERE instant IS NULL
    UNION ALL
    SELECT worker, NULL, NULL, NULL, NULL, NULL, coalesce(CAST(instant AS TIMESTAMP), max(last_ts)), NULL
    FROM life
    WHERE instant IS NOT NULL OR worker NOT IN (SELECT worker FROM failed)
    GROUP BY worker
),

place AS (
    SELECT stream, worker, moment, max(seq) AS seq, arg_max(incarnation, seq) AS incarnation
    FROM told
    WHERE moment IS NOT NULL
    GROUP BY stream, worker, moment
),

elsewhere AS (
    SELECT asked.worker, asked.failure_stream, asked.failure_seq, asked.at_ts, place.stream, place.incarnation, place.seq
    FROM (
        SELECT DISTINCT asked.*, life.stream
        FROM asked
        INNER JOIN life USING (worker)
        WHERE life.stream IS DISTINCT FROM asked.failure_stream AND asked.at_ts IS NOT NULL
    ) AS asked
    ASOF JOIN place
        ON place.stream = asked.stream AND place.worker = asked.worker AND asked.at_ts >= place.moment
)

SELECT
    asked.worker, asked.life, asked.failure, asked.failure_stream, asked.failure_seq, asked.failure_line, asked.at_ts,
    asked.failure_stream AS stream, asked.life AS incarnation, asked.failure_seq AS last_seq
FROM asked
WHERE asked.failure_stream IS NOT NULL
UNION ALL
SELECT
    asked.worker, asked.life, asked.failure, asked.failure_stream, asked.failure_seq, asked.failure_line, asked.at_ts,
    elsewhere.stream, elsewhere.incarnation, elsewhere.seq
FROM asked
INNER JOIN elsewhere
    ON elsewhere.worker = asked.worker
    AND elsewhere.failure_stream IS NOT DISTINCT FROM asked.failure_stream
    AND elsewhere.failure_seq IS NOT DISTINCT FROM asked.failure_seq
INNER JOIN life
    ON life.stream = elsewhere.stream AND life.worker = elsewhere.worker
    AND life.incarnation IS NOT DISTINCT FROM elsewhere.incarnation
-- A log counts lives by itself; the others call one life by one name, and another life's row tells nothing of this one.
WHERE asked.life IS NULL OR elsewhere.incarnation IS NULL OR asked.is_log <> life.is_log OR elsewhere.incarnation = asked.life
UNION ALL
-- Where nothing failed and no time is told, a stream is asked about its own end.
SELECT worker, incarnation, NULL, NULL, NULL, NULL, NULL, stream, incarnation, last_seq
FROM life
WHERE instant IS NULL AND last_ts IS NULL AND worker NOT IN (SELECT worker FROM failed)
QUALIFY row_number() OVER (PARTITION BY stream ORDER BY last_seq DESC) = 1;
