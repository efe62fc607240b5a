-- Are the peaks of prefill activations and of logits measured?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(*) FILTER (component = 'activation') > 0 THEN count(*) FILTER (component = 'logits') > 0 END AS met,
    format(
        '{} figures of activations, {} of logits',
        count(*) FILTER (component = 'activation'), count(*) FILTER (component = 'logits')
    ) AS evidence
FROM memory
WHERE bytes IS NOT NULL
