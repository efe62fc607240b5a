-- KV pool use and the queue as the engine reported them before an instant, the last first
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column usage_ratio: used share of the pool
-- column used_tokens: used tokens, where printed
-- column group_id: KV cache group
-- column running_requests: at that report
-- column waiting_requests: at that report
-- column prompt_tokens_per_s: at that report
-- column generation_tokens_per_s: at that report
-- column mode: of the batch, where the line reports one
-- column prefill_tokens: of that batch
SELECT kv_pool.stream, kv_pool.seq, kv_pool.line, kv_pool.ts, kv_pool.usage_ratio, kv_pool.used_tokens, kv_pool.group_id,
    coalesce(throughput.running_requests, step.running_requests) AS running_requests,
    coalesce(throughput.waiting_requests, step.waiting_requests) AS waiting_requests,
    throughput.prompt_tokens_per_s, throughput.generation_tokens_per_s, step.mode, step.prefill_tokens
FROM kv_pool
LEFT JOIN throughput ON throughput.stream = kv_pool.stream AND throughput.line = kv_pool.line
LEFT JOIN step ON step.stream = kv_pool.stream AND step.line = kv_pool.line
WHERE kv_pool.stream = $stream AND kv_pool.worker = $worker AND kv_pool.incarnation = $incarnation AND kv_pool.seq < $seq
    AND kv_pool.usage_ratio IS NOT NULL
-- An engine with several KV cache groups prints a figure for each: the full-attention group, which has no name, counts.
QUALIFY row_number() OVER (PARTITION BY kv_pool.line, kv_pool.ts, kv_pool.rank_name ORDER BY kv_pool.group_id NULLS FIRST) = 1
ORDER BY kv_pool.seq DESC
LIMIT 60;
