-- Process ids that wrote lines of earlier incarnations, or of other workers, before an instant
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column pid: as printed in the line's process prefix; seq and line are its first line's
WITH wrote AS MATERIALIZED (
    SELECT stream, min(seq) AS seq, min(line) AS line, worker, incarnation,
        TRY_CAST(regexp_extract(log.text, '(?:pid=|server process \[|left-over process )(\d{1,10})[)\] ]', 1) AS BIGINT) AS pid
    FROM log
    WHERE log.text LIKE '%pid=%' OR log.text LIKE '%server process [%' OR log.text LIKE '%left-over process %'
    GROUP BY ALL
    HAVING pid IS NOT NULL
)

SELECT stream, seq, line, worker, incarnation, pid
FROM wrote
WHERE stream = $stream AND seq < $seq AND (worker <> $worker OR incarnation <> $incarnation)
ORDER BY seq
LIMIT 256;
