-- Is it known how the weights are quantised?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(*) > 0 THEN TRUE END AS met,
    coalesce(string_agg(DISTINCT key || ' ' || value, ', '), 'no argument names it') AS evidence
FROM manifest
WHERE key IN ('quantization', 'quantize', 'quant_method', 'quant_algo')
