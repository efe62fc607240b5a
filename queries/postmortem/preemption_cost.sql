-- What preemption cost: each one that was followed, and what the engine's counters and log say of the others
-- needs request.event=preempted or kv_pool.preempted_requests or throughput.preempted_requests or throughput.retracted_requests or oom.resource=kv_blocks: the agent, prometheus, or an engine log
-- column worker: engine instance
-- column told: request (one that was followed), counter (what a counter grew by), or report (a line of the log, an event of the engine)
-- column ts: when, in UTC; NULL where the source tells no time
-- column request_id: which request, where one was followed
-- column requests: how many were preempted or retracted
-- column lost_tokens: computed and thrown away
-- column recomputed_tokens: computed again when it came back; what the prefix cache still held need not be
-- column lost_blocks: given back
-- column away_s: seconds until it was scheduled again; NULL where it was not, or no time is told
-- column came_back: whether it was seen again; NULL where only counted
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
WITH followed AS (
    SELECT
        *, lead(event) OVER later AS next_event, lead(ts) OVER later AS next_ts,
        lead(coalesce(cached_tokens, computed_tokens)) OVER later AS kept_tokens
    FROM request
    WHERE event IN ('preempted', 'resumed', 'admitted', 'swapped_in', 'finished', 'cancelled')
    WINDOW later AS (PARTITION BY stream, worker, incarnation, request_id ORDER BY seq)
),

counter AS (
    SELECT
        stream, seq, line, ts, worker, source,
        preempted_requests - lag(preempted_requests) OVER told AS requests,
        preempted_tokens - lag(preempted_tokens) OVER told AS lost_tokens,
        recomputed_tokens - lag(recomputed_tokens) OVER told AS recomputed_tokens
    FROM kv_pool
    WHERE preempted_requests IS NOT NULL
    -- Cumulative since the life began; a scrape's first reading may hold the past.
    WINDOW told AS (PARTITION BY stream, worker, incarnation, rank_name, tier, group_id ORDER BY seq)
)

SELECT
    worker, 'request' AS told, ts, request_id, 1 AS requests, computed_tokens AS lost_tokens,
    CASE WHEN next_event IN ('resumed', 'admitted') AND computed_tokens >= kept_tokens THEN computed_tokens - kept_tokens END
        AS recomputed_tokens,
    -kv_blocks_delta AS lost_blocks,
    CASE WHEN next_event IN ('resumed', 'admitted', 'swapped_in') THEN date_diff('microsecond', ts, next_ts) / 1e6 END
        AS away_s,
    coalesce(next_event IN ('resumed', 'admitted', 'swapped_in'), FALSE) AS came_back, stream, seq, line
FROM followed
WHERE event = 'preempted'
UNION ALL
SELECT worker, 'counter', ts, NULL, requests, lost_tokens, recomputed_tokens, NULL, NULL, NULL, stream, seq, line
FROM counter
WHERE requests > 0
UNION ALL
SELECT worker, 'report', ts, NULL, requests, NULL, NULL, NULL, NULL, NULL, stream, seq, line
FROM oom
WHERE resource = 'kv_blocks' AND (requests > 0 OR error_type IN ('preemption', 'retraction'))
UNION ALL
SELECT
    worker, 'report', ts, NULL, coalesce(preempted_requests, retracted_requests), NULL, NULL, NULL, NULL, NULL, stream, seq,
    line
FROM throughput
WHERE coalesce(preempted_requests, retracted_requests) > 0
ORDER BY worker, ts NULLS LAST, stream, seq, told;
