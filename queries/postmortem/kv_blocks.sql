-- The KV pool's blocks by state over time, in blocks, tokens and bytes, as far as each report tells them
-- needs kv_pool.usage_ratio or kv_pool.used_blocks or kv_pool.used_tokens or kv_pool.total_blocks or kv_pool.total_tokens: the agent, prometheus, or an engine log
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank_name: rank or process as printed
-- column tier: device, host, disk or remote
-- column group_id: KV cache group
-- column total_blocks: size in blocks
-- column used_blocks: held by requests
-- column free_blocks: free
-- column evictable_blocks: cached, and given up when needed
-- column total_tokens: size in tokens
-- column used_tokens: held by requests
-- column usage_ratio: used share, 0 to 1
-- column used_bytes: used blocks times their size, which may have been told earlier in the stream
WITH sized AS (
    SELECT
        *,
        last_value(bytes_per_block IGNORE NULLS) OVER (
            PARTITION BY stream, worker, incarnation, tier, group_id ORDER BY seq
        ) AS block_bytes
    FROM kv_pool
)

SELECT
    stream, seq, line, ts, worker, incarnation, rank_name, tier, group_id, total_blocks, used_blocks, free_blocks,
    evictable_blocks, total_tokens, used_tokens, round(coalesce(usage_ratio, used_blocks / total_blocks), 4) AS usage_ratio,
    used_blocks * block_bytes AS used_bytes
FROM sized
WHERE coalesce(total_blocks, used_blocks, free_blocks, evictable_blocks, total_tokens, used_tokens) IS NOT NULL
    OR usage_ratio IS NOT NULL
ORDER BY worker, ts NULLS LAST, stream, seq;
