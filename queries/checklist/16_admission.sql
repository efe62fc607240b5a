-- Does admission look at free blocks and at growth that was promised?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(reserved_output_tokens) > 0 THEN TRUE WHEN count(*) FILTER (event = 'admitted') > 0 THEN FALSE END AS met,
    format(
        '{} admissions, {} with a reserved output', count(*) FILTER (event = 'admitted'), count(reserved_output_tokens)
    ) AS evidence
FROM request
