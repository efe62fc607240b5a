-- Was a restart or a rolling update recorded, and did it end without running out?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH lives AS (
    SELECT worker, count(DISTINCT incarnation) AS n FROM lifecycle WHERE phase IN ('spawned', 'loading', 'ready') GROUP BY worker
    UNION ALL
    -- From outside, the figures of its page alone tell a worker's lives.
    SELECT worker, count(DISTINCT incarnation) AS n FROM events WHERE source = 'prometheus' GROUP BY worker, stream
), restarted AS (SELECT count(DISTINCT worker) AS workers FROM lives WHERE n > 1),
failed AS (SELECT count(*) AS n FROM oom WHERE fatal IS DISTINCT FROM FALSE)
SELECT
    CASE WHEN workers = 0 THEN NULL ELSE failed.n = 0 END AS met,
    format('{} workers with more than one life, {} failures for lack of memory', workers, failed.n) AS evidence
FROM restarted, failed
