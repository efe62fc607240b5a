-- The batch and the queue over time: running and waiting requests, and tokens a second
-- needs throughput.running_requests or step.running_requests: the agent, prometheus, or an engine log
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column running_requests: in the batch
-- column waiting_requests: in the queue
-- column prompt_tokens_per_s: prompt tokens a second, where reported
-- column generation_tokens_per_s: generated tokens a second, where reported
-- column usage_ratio: used share of the KV pool told with it or last before in that stream, 0 to 1
WITH told AS (
    SELECT
        stream, seq, line, ts, worker, incarnation, running_requests, waiting_requests, prompt_tokens_per_s,
        generation_tokens_per_s
    FROM throughput
    UNION ALL
    SELECT stream, seq, line, ts, worker, incarnation, running_requests, waiting_requests, NULL, NULL
    FROM step
    -- A log's batch and report stand in one line: the report tells more.
    WHERE line IS NULL OR NOT EXISTS (
        SELECT 1 FROM throughput WHERE throughput.stream = step.stream AND throughput.line = step.line
    )
)

SELECT
    told.stream, told.seq, told.line, told.ts, told.worker, told.incarnation, running_requests, waiting_requests,
    prompt_tokens_per_s, generation_tokens_per_s, round(pool.usage_ratio, 4) AS usage_ratio
FROM told
ASOF LEFT JOIN (
    -- An agent writes the pool behind its step; of what one line gives, either may stand first.
    SELECT
        stream, worker, coalesce(line, seq - CASE WHEN source = 'agent' THEN 1 ELSE 0 END) AS place,
        arg_max(usage_ratio, seq) AS usage_ratio
    FROM kv_pool
    WHERE usage_ratio IS NOT NULL
    GROUP BY ALL
) AS pool
    ON pool.stream = told.stream AND pool.worker = told.worker AND coalesce(told.line, told.seq) >= pool.place
WHERE running_requests IS NOT NULL OR waiting_requests IS NOT NULL
ORDER BY told.worker, told.ts NULLS LAST, told.stream, told.seq;
