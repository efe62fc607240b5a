-- Are resident parameters counted, and not the active ones: is the weight of every rank measured?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH ranks AS (
    SELECT max(try_cast(value AS BIGINT)) AS size FROM manifest WHERE key = 'world_size'
), measured AS (
    SELECT count(DISTINCT coalesce(rank_name, rank::VARCHAR, '')) AS ranks
    FROM memory WHERE component = 'weights' AND owner IS DISTINCT FROM 'disk'
)
SELECT
    CASE WHEN measured.ranks = 0 THEN NULL ELSE measured.ranks >= coalesce(size, 1) END AS met,
    format('weights measured on {} of {} ranks', measured.ranks, coalesce(size::VARCHAR, 'an unknown number of')) AS evidence
FROM ranks, measured
