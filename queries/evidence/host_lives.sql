-- Other lives of a worker whose processes held host memory beside the one that was killed for it, the largest first
-- params: stream, worker, incarnation, ts
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column pid: process id
-- column name: as reported
-- column rss_bytes: what it held at that instant: its resident set
-- column life: which life of the worker it is
SELECT stream, seq, line, process.pid, process.name, process.rss_bytes, process.owner_incarnation AS life
FROM process
WHERE stream = $stream AND worker = $worker AND source = 'host' AND process.own AND ts = $ts
    AND process.owner_incarnation <> $incarnation
ORDER BY rss_bytes DESC, seq
LIMIT 64;
