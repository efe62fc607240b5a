-- What a recording says of each request and of each KV block at its end: the least that a verdict on it has to know
-- $file: the recording, a Parquet file of ours
-- Plain DuckDB, for the cost of `oomctl triage` to be compared with: one scan of each kind's own columns, one state per key.
WITH request_state AS (
    SELECT
        request.request_id, min(ts) AS first_ts, max(ts) AS last_ts, arg_max(request.event, seq) AS last_event,
        arg_max(request.kv_blocks, seq) AS held_blocks, sum(request.kv_blocks_delta) AS net_blocks,
        max(request.prompt_tokens) AS prompt_tokens, max(request.output_tokens) AS output_tokens
    FROM read_parquet($file)
    WHERE kind = 'request'
    GROUP BY ALL
),

block_state AS (
    SELECT
        kv_block.block_hash, arg_max(kv_block.op, seq) AS last_op, count_if(kv_block.op = 'stored') AS stored,
        max(kv_block.tokens) AS tokens, min(ts) AS first_ts
    FROM read_parquet($file)
    WHERE kind = 'kv_block'
    GROUP BY ALL
)

SELECT 'request' AS of, last_event AS state, count(*) AS number, sum(held_blocks) AS blocks, sum(output_tokens) AS tokens
FROM request_state
GROUP BY ALL

UNION ALL

SELECT 'block', last_op, count(*), sum(stored), sum(tokens)
FROM block_state
GROUP BY ALL

ORDER BY ALL;
