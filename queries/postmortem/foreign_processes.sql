-- Processes on the device that are not the worker's: since when, and how much they held
-- needs process.used_bytes or oom.other_processes_bytes: nvml, or an out-of-memory message that names processes
-- column worker: engine instance
-- column device_id: device index as the process sees it
-- column pid: process id; NULL where only the sum of all is told
-- column name: its name, where reported
-- column whose: nobody's that is known, or an earlier life of the worker
-- column first_ts: when it was first seen, in UTC
-- column last_ts: when it was last seen
-- column first_bytes: held then
-- column last_bytes: held at last
-- column max_bytes: the most
-- column grew_bytes: last less first
-- column stream: source of the rows
-- column last_seq: place in the stream of the last one
-- column last_line: line of the source that gave it; NULL where the source has no lines
WITH told AS (
    SELECT
        worker, device_id, pid, name,
        CASE WHEN owner_incarnation IS NULL THEN 'unknown' ELSE concat('earlier life ', owner_incarnation) END AS whose,
        ts, used_bytes AS bytes, stream, seq, line
    FROM process
    -- A life of the worker other than the one that the row is about is a stranger to it.
    WHERE used_bytes IS NOT NULL AND (own IS DISTINCT FROM TRUE OR owner_incarnation <> incarnation)
    UNION ALL
    SELECT worker, device_id, NULL, NULL, 'all others together', ts, other_processes_bytes, stream, seq, line
    FROM oom
    WHERE other_processes_bytes > 0
)

SELECT
    worker, device_id, pid, max(name) AS name, whose, min(ts) AS first_ts, max(ts) AS last_ts,
    arg_min(bytes, seq) AS first_bytes, arg_max(bytes, seq) AS last_bytes, max(bytes) AS max_bytes,
    arg_max(bytes, seq) - arg_min(bytes, seq) AS grew_bytes, stream, max(seq) AS last_seq, max(line) AS last_line
FROM told
GROUP BY worker, device_id, pid, whose, stream
ORDER BY worker, device_id NULLS LAST, max_bytes DESC, pid, stream;
