-- What used the memory at an instant: the last figures of each device, process, allocator and component by then
-- needs memory.bytes or allocator.reserved_bytes or device.total_bytes or process.used_bytes or oom.total_bytes: the agent, nvml, or a log that prints figures
-- param at = NULL: the instant, in UTC; without it, each life's failure, or the end of the record where none failed
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault of the failure; NULL where an instant was given, or nothing failed
-- column at_ts: the instant, in UTC; NULL where the source tells no time
-- column rank: global rank, where known
-- column device_id: device index as the process sees it
-- column part: device_total, device_free, device_used, process, framework_reserved, framework_allocated, or a component such as weights
-- column owner: which figure of a component (loaded, profiled, ...), or the process: its name and process id
-- column bytes: how many
-- column gib: the same in GiB, to three decimals
-- column age_s: seconds between the figure and the instant; NULL where a time is unknown
-- column told_by: which kind of source told it
-- column stream: source of the figure's row
-- column seq: its place in the stream
WITH figure AS (
    SELECT
        stream, seq, ts, worker, incarnation, rank, device_id, source,
        unnest([
            {'n': 1, 'part': 'device_total', 'owner': NULL, 'bytes': total_bytes},
            {'n': 2, 'part': 'device_free', 'owner': NULL, 'bytes': free_bytes},
            {'n': 3, 'part': 'device_used', 'owner': NULL, 'bytes': used_bytes}
        ], recursive := TRUE)
    FROM device
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, rank, device_id, source, 4, 'process', concat_ws(' ', name, pid), used_bytes
    FROM process
    UNION ALL
    SELECT
        stream, seq, ts, worker, incarnation, rank, device_id, source,
        unnest([
            {'n': 5, 'part': 'framework_reserved', 'owner': NULL, 'bytes': reserved_bytes},
            {'n': 6, 'part': 'framework_allocated', 'owner': NULL, 'bytes': allocated_bytes}
        ], recursive := TRUE)
    FROM allocator
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, rank, device_id, source, 7, component, owner, bytes
    FROM memory
    UNION ALL
    SELECT
        stream, seq, ts, worker, incarnation, rank, device_id, source,
        unnest([
            {'n': 1, 'part': 'device_total', 'owner': NULL, 'bytes': total_bytes},
            {'n': 2, 'part': 'device_free', 'owner': NULL, 'bytes': free_bytes},
            {'n': 4, 'part': 'process', 'owner': 'as the failure says', 'bytes': own_process_bytes},
            {'n': 5, 'part': 'framework_reserved', 'owner': NULL, 'bytes': framework_bytes},
            {'n': 6, 'part': 'framework_allocated', 'owner': NULL, 'bytes': allocated_true_bytes}
        ], recursive := TRUE)
    FROM oom_figures
),

known AS (
    SELECT reached.*, figure.* EXCLUDE (worker, incarnation, stream), figure.stream AS told_stream
    FROM reached($at) AS reached
    INNER JOIN figure
        ON figure.stream = reached.stream
        AND figure.worker = reached.worker
        AND figure.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND figure.seq <= reached.last_seq
    WHERE figure.bytes IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY reached.worker, reached.life, reached.failure_stream, reached.failure_seq, rank, device_id, part, owner
        ORDER BY figure.ts DESC NULLS LAST, figure.stream = reached.failure_stream DESC, figure.seq DESC
    ) = 1
),

-- A process that a later list leaves out is gone.
present AS (
    SELECT *
    FROM known
    QUALIFY part <> 'process' OR ts IS NOT DISTINCT FROM max(ts) OVER (
        PARTITION BY worker, life, failure_stream, failure_seq, told_stream, device_id, part
    )
)

SELECT
    worker, life, failure, at_ts, rank, device_id, part, owner, bytes, round(bytes / 1073741824, 3) AS gib,
    date_diff('microsecond', ts, at_ts) / 1e6 AS age_s, source AS told_by, told_stream AS stream, seq
FROM present
ORDER BY worker, at_ts, life, device_id NULLS LAST, rank NULLS FIRST, n, part, bytes DESC, owner;
