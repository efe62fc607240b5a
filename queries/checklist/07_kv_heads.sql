-- Is the KV cache's size per token known from the engine, and so by KV heads, not query heads?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE
        WHEN bool_or(bytes_per_block IS NOT NULL AND block_size_tokens IS NOT NULL) THEN TRUE
        WHEN count(total_tokens) > 0 OR count(total_blocks) > 0 THEN FALSE
    END AS met,
    coalesce(
        min(bytes_per_block // nullif(block_size_tokens, 0))::VARCHAR || ' bytes per token',
        'no bytes per block were told'
    ) AS evidence
FROM kv_pool
