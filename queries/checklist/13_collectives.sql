-- Are the buffers of collectives measured, where there are several ranks?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH ranks AS (SELECT max(try_cast(value AS BIGINT)) AS size FROM manifest WHERE key = 'world_size'),
told AS (SELECT count(*) AS n FROM memory WHERE component = 'collective' AND bytes IS NOT NULL)
SELECT
    CASE WHEN n > 0 OR size = 1 THEN TRUE WHEN size > 1 THEN FALSE END AS met,
    format('{} figures, world size {}', n, coalesce(size::VARCHAR, 'unknown')) AS evidence
FROM ranks, told
