-- The steps that computed the most tokens, at most 20 of each worker, the failing batch marked
-- needs step.prefill_tokens: the agent, or an engine log that prints batches
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column mode: prefill, decode, mixed, or prompt (a whole prompt as it was handed over)
-- column prefill_tokens: scheduled prompt tokens
-- column decode_tokens: scheduled decode tokens
-- column cached_tokens: prompt tokens found in the prefix cache
-- column logits_positions: positions for which logits are computed
-- column running_requests: in the batch
-- column duration_ms: milliseconds that it took; NULL where it is not told
-- column is_failing: the engine says that this batch failed
SELECT
    stream, seq, line, ts, worker, incarnation, mode, prefill_tokens, decode_tokens, cached_tokens, logits_positions,
    running_requests, duration_us / 1000 AS duration_ms, coalesce(dumped, FALSE) AS is_failing
FROM step
WHERE prefill_tokens IS NOT NULL OR decode_tokens IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY worker
    ORDER BY coalesce(prefill_tokens, 0) + coalesce(decode_tokens, 0) DESC, stream, seq
) <= 20 OR is_failing
ORDER BY worker, coalesce(prefill_tokens, 0) + coalesce(decode_tokens, 0) DESC, stream, seq;
