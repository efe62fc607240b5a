-- Are logical tokens told apart from physical ones?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE
        WHEN bool_or(logical_tokens IS NOT NULL) AND bool_or(physical_tokens IS NOT NULL) THEN TRUE
        WHEN count(*) > 0 THEN FALSE
    END AS met,
    format('{} readings of logical tokens, {} of physical', count(logical_tokens), count(physical_tokens)) AS evidence
FROM kv_pool
