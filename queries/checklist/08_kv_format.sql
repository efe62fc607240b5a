-- Is the KV cache's format known, with its scales?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(*) > 0 THEN TRUE END AS met,
    coalesce(string_agg(DISTINCT key || ' ' || value, ', '), 'no argument names it') AS evidence
FROM manifest
WHERE key IN ('kv_cache_dtype', 'cache_dtype', 'kv_cache_quant_algo', 'quant_policy', 'cache_type_k', 'cache_type_v')
