-- Are adapters accounted for: their bytes, or that there are none?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH resident AS (SELECT count(*) AS events, max(resident_bytes) AS bytes FROM adapter),
told AS (SELECT count(*) AS n FROM memory WHERE component = 'adapter' AND bytes IS NOT NULL),
enabled AS (SELECT bool_or(lower(value) IN ('true', '1')) AS lora FROM manifest WHERE key IN ('enable_lora', 'lora_paths'))
SELECT
    CASE
        WHEN bytes IS NOT NULL OR n > 0 THEN TRUE
        WHEN events > 0 OR lora THEN FALSE
        WHEN lora IS NOT NULL THEN TRUE
    END AS met,
    format('{} adapter events, resident bytes {}', events, coalesce(bytes::VARCHAR, 'unknown')) AS evidence
FROM resident, told, enabled
