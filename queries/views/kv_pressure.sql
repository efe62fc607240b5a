-- Reports in which running requests went back to the queue while the KV pool was full: preemption, which vLLM V1 does not log
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column ts_quality: how far ts is to be trusted
-- column node: host, where known
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column usage_ratio: used share of the pool at the report, or at the one before, whichever is larger
-- column running_requests: requests in the batch
-- column waiting_requests: requests in the queue
-- column running_before: requests in the batch at the report before
-- column waiting_before: requests in the queue at the report before
-- column lost: requests that left the batch for the queue
CREATE VIEW kv_pressure AS
WITH report AS (
    SELECT kv_pool.stream, kv_pool.seq, kv_pool.line, kv_pool.ts, kv_pool.ts_quality, kv_pool.node, kv_pool.worker,
        kv_pool.incarnation, kv_pool.rank, kv_pool.rank_name, kv_pool.usage_ratio,
        throughput.running_requests, throughput.waiting_requests, throughput.prompt_tokens_per_s,
        throughput.swapped_requests
    FROM kv_pool
    INNER JOIN throughput ON throughput.stream = kv_pool.stream AND throughput.line = kv_pool.line
    WHERE kv_pool.usage_ratio IS NOT NULL
        -- What an engine dumps because of a failure is no report.
        AND NOT EXISTS (
            SELECT 1 FROM step
            WHERE step.dumped AND step.stream = kv_pool.stream AND abs(step.seq - kv_pool.seq) < 100
        )
),

compared AS (
    SELECT
        *,
        lag(running_requests) OVER life AS running_before,
        lag(waiting_requests) OVER life AS waiting_before,
        lag(usage_ratio) OVER life AS usage_before
    FROM report
    WINDOW life AS (PARTITION BY stream, worker, incarnation, rank_name ORDER BY seq)
)

SELECT stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name,
    greatest(usage_ratio, coalesce(usage_before, 0)) AS usage_ratio, running_requests, waiting_requests, running_before,
    waiting_before, greatest(coalesce(swapped_requests, 0), running_before - running_requests)
        AS lost
FROM compared
WHERE greatest(usage_ratio, coalesce(usage_before, 0)) >= 0.9
    AND (
        (running_requests < running_before AND waiting_requests > waiting_before)
        OR coalesce(swapped_requests, 0) > 0
    );
