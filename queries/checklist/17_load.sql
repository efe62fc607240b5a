-- Was it tested at its p95 and p99, and with a burst?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH ended AS (SELECT count(DISTINCT request_id) AS n FROM request WHERE event = 'finished'),
queue AS (
    SELECT max(waiting_requests) AS longest FROM (
        SELECT waiting_requests FROM throughput UNION ALL SELECT waiting_requests FROM step
    )
)
SELECT
    CASE WHEN n = 0 THEN NULL ELSE n >= 1000 AND coalesce(longest, 0) > 0 END AS met,
    format('{} requests finished (a p99 needs 1000), longest queue {}', n, coalesce(longest::VARCHAR, 'unknown')) AS evidence
FROM ended, queue
