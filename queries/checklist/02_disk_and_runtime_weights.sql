-- Are the weights measured in memory, beside their size on disk?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE
        WHEN bool_or(owner = 'disk') AND bool_or(owner IS DISTINCT FROM 'disk') THEN TRUE
        WHEN count(*) > 0 THEN FALSE
    END AS met,
    format(
        '{} figures of weights in memory, {} of their size on disk',
        count(*) FILTER (owner IS DISTINCT FROM 'disk'), count(*) FILTER (owner = 'disk')
    ) AS evidence
FROM memory
WHERE component = 'weights'
