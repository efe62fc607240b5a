-- Does memory leak: the slope of each memory figure while serving, with its 95% interval
-- needs allocator.allocated_bytes or device.used_bytes or process.used_bytes or process.rss_bytes or host.rss_bytes or host.cgroup_current_bytes: the agent, nvml, or host
-- param at = NULL: the instant that it ends with, in UTC; without it, each life's failure, or the end of the record
-- param window_s = 3600: seconds before that instant
-- column worker: engine instance
-- column life: which life of that worker
-- column figure: allocated, reserved, device_used, process, rss, or cgroup
-- column whose: the rank, the process, or the stream where neither is known
-- column device_id: device index, where it is a device's
-- column points: readings, at least 4
-- column span_s: seconds between the first and the last
-- column first_bytes: at the first
-- column last_bytes: at the last
-- column slope_bytes_per_s: least squares
-- column low_bytes_per_s: lower end of the interval; NULL where too few readings are independent
-- column high_bytes_per_s: upper end
-- column independent_points: readings left when those that repeat the one before are discounted
-- column grows: TRUE if the whole interval lies above 0, FALSE if it does not, NULL where there is no interval
-- Interval: slope +- t x standard error, the readings discounted by the lag-1 autocorrelation r of the residuals,
-- n (1 - r) / (1 + r) (Santer et al. 2000, doi 10.1029/1999JD901105); t by Hill's expansion about the normal quantile
-- (Abramowitz and Stegun 26.7.5), within 1% from 3 degrees of freedom on.
WITH served AS (
    SELECT worker, incarnation, min(ts) AS ready_ts
    FROM lifecycle
    WHERE phase IN ('ready', 'serving')
    GROUP BY worker, incarnation
),

reading AS (
    SELECT stream, seq, ts, worker, incarnation, device_id, CAST(rank AS VARCHAR) AS whose, unnest([
        {'figure': 'allocated', 'bytes': allocated_bytes}, {'figure': 'reserved', 'bytes': reserved_bytes}
    ], recursive := TRUE)
    FROM allocator
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, device_id, NULL, 'device_used', coalesce(used_bytes, total_bytes - free_bytes)
    FROM device
    WHERE source IN ('nvml', 'amdsmi')
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, device_id, concat_ws(' ', name, pid), unnest([
        {'figure': 'process', 'bytes': used_bytes}, {'figure': 'rss', 'bytes': rss_bytes}
    ], recursive := TRUE)
    FROM process
    UNION ALL
    -- An agent tells the resident set of its own process, more often than a sampler beside it.
    SELECT stream, seq, ts, worker, incarnation, NULL, NULL, unnest([
        {'figure': 'rss', 'bytes': rss_bytes}, {'figure': 'cgroup', 'bytes': cgroup_current_bytes}
    ], recursive := TRUE)
    FROM host
),

chosen AS (
    SELECT
        reached.worker, reached.life, reading.figure, coalesce(reading.whose, reading.stream) AS whose, reading.device_id,
        reading.bytes, reading.seq, epoch_us(reading.ts) / 1e6 AS s
    FROM reached($at) AS reached
    INNER JOIN reading
        ON reading.stream = reached.stream
        AND reading.worker = reached.worker
        AND reading.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND reading.seq <= reached.last_seq
    LEFT JOIN served ON served.worker = reading.worker AND served.incarnation = reading.incarnation
    WHERE reading.bytes IS NOT NULL AND reading.ts IS NOT NULL AND reading.ts >= coalesce(served.ready_ts, reading.ts)
        AND date_diff('microsecond', reading.ts, reached.at_ts) / 1e6 <= CAST($window_s AS DOUBLE)
),

line AS (
    SELECT
        worker, life, figure, whose, device_id, count(*) AS points, max(s) - min(s) AS span_s,
        arg_min(bytes, s) AS first_bytes, arg_max(bytes, s) AS last_bytes,
        avg(s) AS mean_s, avg(bytes) AS mean_bytes, var_pop(s) * count(*) AS spread,
        covar_pop(bytes, s) / nullif(var_pop(s), 0) AS slope
    FROM chosen
    GROUP BY worker, life, figure, whose, device_id
    HAVING count(*) >= 4 AND max(s) > min(s)
),

residual AS (
    SELECT
        chosen.worker, chosen.life, chosen.figure, chosen.whose, chosen.device_id,
        bytes - mean_bytes - slope * (s - mean_s) AS rest,
        lag(bytes - mean_bytes - slope * (s - mean_s)) OVER (
            PARTITION BY chosen.worker, chosen.life, chosen.figure, chosen.whose, chosen.device_id ORDER BY s, seq
        ) AS rest_before
    FROM chosen
    INNER JOIN line
        ON line.worker = chosen.worker AND line.life IS NOT DISTINCT FROM chosen.life AND line.figure = chosen.figure
        AND line.whose = chosen.whose AND line.device_id IS NOT DISTINCT FROM chosen.device_id
),

scattered AS (
    SELECT
        worker, life, figure, whose, device_id, sum(rest * rest) AS squares,
        -- Repeating the reading before makes fewer of them independent; alternating makes no more. Less than a byte is none.
        CASE WHEN sum(rest * rest) > count(*) THEN greatest(sum(rest * rest_before) / sum(rest * rest), 0) ELSE 0 END AS r
    FROM residual
    GROUP BY worker, life, figure, whose, device_id
),

judged AS (
    SELECT line.*, squares, points * (1 - r) / (1 + r) AS independent, points * (1 - r) / (1 + r) - 2 AS freedom
    FROM line
    INNER JOIN scattered
        ON scattered.worker = line.worker AND scattered.life IS NOT DISTINCT FROM line.life
        AND scattered.figure = line.figure AND scattered.whose = line.whose
        AND scattered.device_id IS NOT DISTINCT FROM line.device_id
),

bounded AS (
    SELECT
        *, CASE WHEN freedom >= 2 THEN sqrt(squares / freedom / spread) * (
            z + (z ** 3 + z) / (4 * freedom) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2)
            + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * freedom ** 3)
        ) END AS half
    FROM judged
    CROSS JOIN (SELECT 1.959963984540054 AS z)
)

SELECT
    worker, life, figure, whose, device_id, points, round(span_s, 3) AS span_s, first_bytes, last_bytes,
    CAST(round(slope) AS BIGINT) AS slope_bytes_per_s, CAST(round(slope - half) AS BIGINT) AS low_bytes_per_s,
    CAST(round(slope + half) AS BIGINT) AS high_bytes_per_s, round(independent, 1) AS independent_points,
    slope - half > 0 AS grows
FROM bounded
ORDER BY worker, life, grows DESC NULLS LAST, slope DESC, figure, whose, device_id;
