-- Lives of one worker that overlap in time: the earlier was not gone when the next began, and what it held then
-- needs process.owner_incarnation or lifecycle.phase: the agent, nvml, or an engine log
-- column worker: engine instance
-- column before: the earlier life
-- column after: the later one
-- column after_began_ts: when the later one began, in UTC
-- column before_seen_ts: when the earlier one, or a process of it, was last seen
-- column overlap_s: seconds between the two
-- column before_max_bytes: the most that processes of the earlier one held on one device since then
-- column before_last_bytes: what they held when last seen
-- column before_pids: their process ids
WITH own AS (
    -- A row about the worker from beside it tells of whichever life was known there.
    SELECT worker, incarnation, min(ts) AS first_ts, max(ts) AS last_ts
    FROM events
    WHERE source IN ('agent', 'log') AND worker IS NOT NULL AND incarnation IS NOT NULL AND ts IS NOT NULL
    GROUP BY worker, incarnation
),

held AS (
    SELECT worker, owner_incarnation AS incarnation, ts, device_id, pid, used_bytes
    FROM process
    WHERE owner_incarnation IS NOT NULL AND ts IS NOT NULL AND (used_bytes > 0 OR rss_bytes > 0)
),

on_device AS (
    SELECT worker, incarnation, device_id, ts, sum(used_bytes) AS bytes
    FROM held
    WHERE used_bytes IS NOT NULL
    GROUP BY worker, incarnation, device_id, ts
),

life AS (
    SELECT own.worker, own.incarnation, own.first_ts, greatest(own.last_ts, max(held.ts)) AS last_ts
    FROM own
    LEFT JOIN held USING (worker, incarnation)
    GROUP BY own.worker, own.incarnation, own.first_ts, own.last_ts
)

SELECT
    earlier.worker, earlier.incarnation AS before, later.incarnation AS after, later.first_ts AS after_began_ts,
    earlier.last_ts AS before_seen_ts, date_diff('microsecond', later.first_ts, earlier.last_ts) / 1e6 AS overlap_s,
    (
        SELECT CAST(max(bytes) AS BIGINT) FROM on_device
        WHERE on_device.worker = earlier.worker AND on_device.incarnation = earlier.incarnation
            AND on_device.ts >= later.first_ts
    ) AS before_max_bytes,
    (
        SELECT CAST(arg_max(bytes, ts) AS BIGINT) FROM on_device
        WHERE on_device.worker = earlier.worker AND on_device.incarnation = earlier.incarnation
            AND on_device.ts >= later.first_ts
    ) AS before_last_bytes,
    (
        SELECT string_agg(DISTINCT CAST(pid AS VARCHAR), ' ' ORDER BY CAST(pid AS VARCHAR)) FROM held
        WHERE held.worker = earlier.worker AND held.incarnation = earlier.incarnation AND held.ts >= later.first_ts
    ) AS before_pids
FROM life AS earlier
INNER JOIN life AS later
    ON later.worker = earlier.worker AND later.first_ts > earlier.first_ts AND later.first_ts <= earlier.last_ts
ORDER BY earlier.worker, later.first_ts, earlier.first_ts;
