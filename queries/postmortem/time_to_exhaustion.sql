-- How long the memory would have lasted: at each reading, the growth until then extended to the end of what is left
-- needs kv_pool.usage_ratio or device.free_bytes or host.cgroup_current_bytes: the agent, nvml, host, prometheus, or an engine log with times
-- param window_s = 60: seconds of growth that are looked at
-- column worker: engine instance
-- column what: kv_pool, device or cgroup
-- column detail: whose: the pool, the device
-- column ts: of the reading, in UTC
-- column used_ratio: used share, 0 to 1
-- column points: readings in the window, at least 4
-- column grows_per_s: share of the whole that is used up in a second (least squares)
-- column exhausted_in_s: seconds until nothing is left at that rate; NULL where it does not grow by more than it scatters
-- column failed_after_s: seconds until the worker's next failure; NULL where none came
-- column stream: source of the reading
-- column seq: its place in the stream
WITH reading AS (
    SELECT
        stream, seq, ts, worker, incarnation, 'kv_pool' AS what, concat_ws(' ', rank_name, tier, group_id) AS detail,
        usage_ratio AS used
    FROM kv_pool
    UNION ALL
    SELECT
        stream, seq, ts, worker, incarnation, 'device', concat('device ', device_id), 1 - free_bytes / nullif(total_bytes, 0)
    FROM device
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, 'cgroup', '', cgroup_current_bytes / nullif(cgroup_limit_bytes, 0)
    FROM host
),

grown AS (
    SELECT
        *, count(*) OVER recent AS points, regr_slope(used, s) OVER recent AS slope,
        s - min(s) OVER recent AS span_s, sqrt(greatest(regr_syy(used, s) OVER recent
            - (regr_sxy(used, s) OVER recent) ** 2 / nullif(regr_sxx(used, s) OVER recent, 0), 0) / count(*) OVER recent)
            AS scatter
    FROM (SELECT *, epoch_us(ts) / 1e6 - epoch_us(min(ts) OVER (PARTITION BY worker)) / 1e6 AS s FROM reading)
    WHERE used IS NOT NULL AND ts IS NOT NULL
    WINDOW recent AS (
        PARTITION BY stream, worker, incarnation, what, detail ORDER BY s
        RANGE BETWEEN CAST($window_s AS DOUBLE) PRECEDING AND CURRENT ROW
    )
)

SELECT
    grown.worker, grown.what, grown.detail, grown.ts, round(grown.used, 4) AS used_ratio, grown.points,
    round(grown.slope, 6) AS grows_per_s,
    CASE WHEN grown.slope > 0 AND grown.slope * grown.span_s > 2 * grown.scatter
        THEN round(greatest(1 - grown.used, 0) / grown.slope, 1)
    END AS exhausted_in_s,
    round(date_diff('microsecond', grown.ts, failed.ts) / 1e6, 3) AS failed_after_s, grown.stream, grown.seq
FROM grown
ASOF LEFT JOIN (SELECT worker, ts FROM failure WHERE ts IS NOT NULL AND NOT soft) AS failed
    ON failed.worker = grown.worker AND grown.ts <= failed.ts
WHERE grown.points >= 4
ORDER BY grown.worker, grown.what, grown.detail, grown.ts, grown.stream, grown.seq;
