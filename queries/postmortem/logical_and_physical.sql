-- Logical against physical tokens: what the requests see, and what is stored once
-- needs kv_pool.logical_tokens: prometheus (SGLang)
-- column stream: source of the row
-- column seq: its place in the stream
-- column ts: when, in UTC
-- column worker: engine instance
-- column rank_name: rank or process as printed
-- column logical_tokens: as the requests see them: a shared prefix counts once for each
-- column physical_tokens: stored, shared or not
-- column shared_tokens: logical less physical; below zero where cached tokens that nobody uses are stored
-- column sharing_ratio: logical per physical token
-- column pool_ratio: physical tokens of the pool's, 0 to 1
SELECT
    stream, seq, ts, worker, rank_name, logical_tokens, physical_tokens, logical_tokens - physical_tokens AS shared_tokens,
    round(logical_tokens / nullif(physical_tokens, 0), 4) AS sharing_ratio,
    round(physical_tokens / nullif(total_tokens, 0), 4) AS pool_ratio
FROM kv_pool
WHERE logical_tokens IS NOT NULL
ORDER BY worker, ts NULLS LAST, stream, seq;
