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
-- A report may print a figure for each of several KV cache groups: 60 reports are within reach of 240 figures.
WITH near AS (
    SELECT stream, seq, line, ts, rank_name, usage_ratio, used_tokens, group_id
    FROM kv_pool
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq AND usage_ratio IS NOT NULL
    ORDER BY seq DESC
    LIMIT 240
)

SELECT near.stream, near.seq, near.line, near.ts, near.usage_ratio, near.used_tokens, near.group_id,
    coalesce(throughput.running_requests, step.running_requests) AS running_requests,
    coalesce(throughput.waiting_requests, step.waiting_requests) AS waiting_requests,
    throughput.prompt_tokens_per_s, throughput.generation_tokens_per_s, step.mode, step.prefill_tokens
FROM near
LEFT JOIN throughput ON throughput.stream = near.stream AND throughput.line = near.line
LEFT JOIN step ON step.stream = near.stream AND step.line = near.line
-- Of the groups, the one of full attention, which has no name, counts.
QUALIFY row_number() OVER (PARTITION BY near.line, near.ts, near.rank_name ORDER BY near.group_id NULLS FIRST) = 1
ORDER BY seq DESC
LIMIT 60;
