-- Blocks that the prefix cache gave up and that were computed again, by the minute in which they were evicted
-- needs kv_block.op: kv_events
-- column worker: engine instance
-- column medium: tier: device, host, disk or remote
-- column minute_ts: the minute, in UTC
-- column evicted_blocks: removed from the cache
-- column evicted_tokens: in them; blocks whose storing was not seen count 0
-- column recomputed_blocks: of these stored again later
-- column recomputed_tokens: in these
-- column recomputed_ratio: of the evicted blocks, 0 to 1
-- column away_p50_s: half of those that came back were away no longer, in seconds
WITH placed AS (
    SELECT
        worker, stream, coalesce(medium, '') AS medium, coalesce(group_id, '') AS group_id, block_hash, seq, ts, op,
        last_value(tokens IGNORE NULLS) OVER told AS tokens,
        lead(op) OVER told AS next_op, lead(ts) OVER told AS next_ts, lag(op) OVER told AS op_before
    FROM kv_block
    WHERE block_hash IS NOT NULL AND op IN ('stored', 'removed')
    WINDOW told AS (PARTITION BY worker, stream, coalesce(medium, ''), coalesce(group_id, ''), block_hash ORDER BY seq)
)

SELECT
    worker, nullif(medium, '') AS medium, date_trunc('minute', ts) AS minute_ts, count(*) AS evicted_blocks,
    CAST(coalesce(sum(tokens), 0) AS BIGINT) AS evicted_tokens,
    count(*) FILTER (next_op = 'stored') AS recomputed_blocks,
    CAST(coalesce(sum(tokens) FILTER (next_op = 'stored'), 0) AS BIGINT) AS recomputed_tokens,
    round(count(*) FILTER (next_op = 'stored') / count(*), 4) AS recomputed_ratio,
    quantile_disc(date_diff('microsecond', ts, next_ts) / 1e6, 0.5) FILTER (next_op = 'stored') AS away_p50_s
FROM placed
WHERE op = 'removed' AND op_before IS DISTINCT FROM 'removed'
GROUP BY ALL
ORDER BY worker, minute_ts, medium NULLS FIRST;
