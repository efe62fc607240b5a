-- Near misses: how often memory nearly ran out, or ran out and the engine went on
-- needs kv_pool.usage_ratio or allocator.num_alloc_retries or device.free_bytes or host.cgroup_current_bytes or oom.resource: the agent, nvml, host, prometheus, or an engine log
-- column worker: engine instance
-- column what: survived (a failure it lived through), kv_full (95% of the pool), retry (the allocator flushed its cache), device_full (98%), cgroup_full (95%)
-- column first_ts: when it began, in UTC; NULL where the source tells no time
-- column last_ts: when it was last so
-- column times: readings or events in a row
-- column worst: the highest used share, 0 to 1; of a retry and a survived failure, how many
-- column detail: whose: the pool, the rank, the device, the failure
-- column stream: source of the rows
-- column first_seq: place in the stream of the first
-- column first_line: line of the source that gave it; NULL where the source has no lines
WITH reading AS (
    SELECT
        stream, seq, line, ts, worker, 'kv_full' AS what, concat_ws(' ', rank_name, tier, group_id) AS detail,
        usage_ratio AS level, usage_ratio >= 0.95 AS is_near
    FROM kv_pool
    WHERE usage_ratio IS NOT NULL
    UNION ALL
    SELECT
        stream, seq, line, ts, worker, 'device_full', concat('device ', device_id), 1 - free_bytes / total_bytes,
        free_bytes < 0.02 * total_bytes
    FROM device
    WHERE free_bytes IS NOT NULL AND total_bytes > 0
    UNION ALL
    SELECT
        stream, seq, line, ts, worker, 'cgroup_full', 'cgroup', cgroup_current_bytes / cgroup_limit_bytes,
        cgroup_current_bytes >= 0.95 * cgroup_limit_bytes
    FROM host
    WHERE cgroup_current_bytes IS NOT NULL AND cgroup_limit_bytes > 0
    UNION ALL
    SELECT
        stream, seq, line, ts, worker, 'retry', concat_ws(' ', 'rank', rank),
        num_alloc_retries - lag(num_alloc_retries) OVER life, num_alloc_retries > lag(num_alloc_retries) OVER life
    FROM allocator
    WHERE num_alloc_retries IS NOT NULL
    WINDOW life AS (PARTITION BY stream, worker, incarnation, device_id ORDER BY seq)
    UNION ALL
    SELECT stream, seq, line, ts, worker, 'survived', coalesce(error_type, api), coalesce(requests, 1), TRUE
    FROM oom
    WHERE NOT fatal
),

-- Readings in a row that are near are one near miss.
numbered AS (
    SELECT
        *, count_if(NOT coalesce(is_near, FALSE)) OVER (PARTITION BY stream, worker, what, detail ORDER BY seq) AS island
    FROM reading
)

SELECT
    worker, what, min(ts) AS first_ts, max(ts) AS last_ts, count(*) AS times,
    CASE WHEN what IN ('retry', 'survived') THEN sum(level) ELSE round(max(level), 4) END AS worst, detail, stream,
    min(seq) AS first_seq, min(line) AS first_line
FROM numbered
WHERE is_near
GROUP BY worker, what, detail, stream, island
ORDER BY worker, first_ts NULLS LAST, stream, first_seq, what;
