-- Is memory known before and after graphs are captured, or are there none?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH captured AS (
    SELECT count(*) AS n, count(*) FILTER (before_bytes IS NOT NULL AND after_bytes IS NOT NULL OR bytes IS NOT NULL) AS sized
    FROM graph
), pools AS (SELECT count(*) AS n FROM memory WHERE component = 'graph_pool' AND bytes IS NOT NULL),
eager AS (SELECT bool_or(lower(value) = 'true') AS on_ FROM manifest WHERE key IN ('enforce_eager', 'disable_cuda_graph'))
SELECT
    CASE
        WHEN sized > 0 OR pools.n > 0 OR on_ THEN TRUE
        WHEN captured.n > 0 THEN FALSE
    END AS met,
    format('{} captures of known size, {} figures of graph pools, eager: {}', sized, pools.n, coalesce(on_::VARCHAR, 'unknown')) AS evidence
FROM captured, pools, eager
