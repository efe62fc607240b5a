-- What the worker's own process held beyond the framework's allocator (non-torch memory), and how that grew
-- needs process.used_bytes or memory.component=non_torch or oom.own_process_bytes: the agent with nvml, or a log that prints non-torch memory or the failure's figures
-- column stream: source of the process's, the component's or the failure's row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column device_id: device index as the process sees it
-- column told_by: driver (the process less the allocator's last reading before), engine, or failure
-- column process_bytes: of the own process, as the driver counts it
-- column reserved_bytes: by the framework
-- column outside_bytes: the difference: contexts, libraries, collectives, graphs
-- column grew_bytes: less the first one told in the same way, in that life
WITH own AS (
    SELECT stream, max(seq) AS seq, ts, worker, incarnation, device_id, CAST(sum(used_bytes) AS BIGINT) AS process_bytes
    FROM process
    WHERE own AND used_bytes IS NOT NULL AND owner_incarnation IS NOT DISTINCT FROM incarnation
    GROUP BY stream, ts, worker, incarnation, device_id
),

taken AS (
    SELECT worker, device_id, ts, reserved_bytes
    FROM allocator
    WHERE reserved_bytes IS NOT NULL AND ts IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY worker, device_id, ts ORDER BY stream, seq DESC) = 1
),

told AS (
    SELECT
        own.stream, own.seq, CAST(NULL AS BIGINT) AS line, own.ts, own.worker, own.incarnation, own.device_id,
        'driver' AS told_by, own.process_bytes, taken.reserved_bytes
    FROM own
    ASOF JOIN taken ON taken.worker = own.worker AND taken.device_id = own.device_id AND own.ts >= taken.ts
    UNION ALL
    SELECT stream, seq, line, ts, worker, incarnation, device_id, 'failure', own_process_bytes, framework_bytes
    FROM oom_figures
    WHERE non_framework_bytes IS NOT NULL
),

given AS (
    SELECT *, process_bytes - reserved_bytes AS outside_bytes FROM told
    UNION ALL
    SELECT stream, seq, line, ts, worker, incarnation, coalesce(device_id, rank), 'engine', NULL, NULL, bytes
    FROM memory
    WHERE component = 'non_torch' AND bytes IS NOT NULL
)

SELECT
    stream, seq, line, ts, worker, device_id, told_by, process_bytes, reserved_bytes, outside_bytes,
    outside_bytes - first_value(outside_bytes) OVER (
        PARTITION BY worker, incarnation, device_id, told_by, stream ORDER BY seq
    ) AS grew_bytes
FROM given
ORDER BY worker, device_id NULLS LAST, told_by, stream, seq;
