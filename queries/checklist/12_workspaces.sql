-- Are workspaces measured?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE
        WHEN bool_or(component = 'workspace') THEN TRUE
        WHEN bool_or(component IN ('non_torch', 'context')) THEN FALSE
    END AS met,
    format(
        '{} figures of workspace, {} of memory outside the framework, in which it may hide',
        count(*) FILTER (component = 'workspace'), count(*) FILTER (component IN ('non_torch', 'context'))
    ) AS evidence
FROM memory
WHERE bytes IS NOT NULL
