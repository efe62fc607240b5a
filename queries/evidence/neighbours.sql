-- Processes other than the failing one that were seen to hold device memory
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column pid: process id, usually the host's
-- column name: as reported
-- column used_bytes: what the process held
-- column own: FALSE where it is known to be another process; NULL where not told
-- column device_id: on which device, where told
-- column role: by its name: cache_daemon, mps_server, trainer, engine, interpreter; NULL where it tells nothing
-- column before: reported before this life of the worker had begun to load
WITH begun AS (
    SELECT coalesce(min(seq) FILTER (WHERE phase <> 'spawned'), min(seq)) AS seq
    FROM lifecycle
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation
        AND phase NOT IN ('stopped', 'killed', 'draining')
),

-- What is printed between two lives counts to the first, and tells what the second one found.
ended AS (
    SELECT max(seq) AS seq
    FROM (
        SELECT seq FROM lifecycle WHERE stream = $stream AND worker = $worker AND phase IN ('stopped', 'killed')
        UNION ALL
        SELECT seq FROM fault WHERE stream = $stream AND worker = $worker AND code = 'engine_dead'
    )
    WHERE seq < (SELECT seq FROM begun)
)

SELECT process.stream, process.seq, process.line, process.pid, process.name, process.used_bytes, process.own,
    process.device_id,
    (
        SELECT arg_min(role, priority) FROM executable WHERE regexp_matches(process.name, executable.name_pattern)
    ) AS role,
    coalesce(process.seq < (SELECT seq FROM begun), FALSE) AS before
FROM process
WHERE process.stream = $stream AND coalesce(process.own, FALSE) = FALSE AND process.rss_bytes IS NULL
    AND process.pid IS NOT NULL
    AND (process.worker = $worker OR process.seq > $seq)
    AND (
        process.incarnation = $incarnation
        OR coalesce(process.seq BETWEEN (SELECT seq FROM ended) AND (SELECT seq FROM begun), FALSE)
    )
ORDER BY used_bytes DESC NULLS LAST, seq
LIMIT 64;
