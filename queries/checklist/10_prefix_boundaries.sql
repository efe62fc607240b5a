-- Is it known which prefixes are shared, and how far a hit goes?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE
        WHEN count(prefix_id) > 0 THEN TRUE
        WHEN count(cached_tokens) > 0 THEN FALSE
    END AS met,
    format('{} request events with a prefix, {} with a hit''s length', count(prefix_id), count(cached_tokens)) AS evidence
FROM request
