-- Allocation retries before the failure: each time the allocator had flushed its cache to find room
-- needs allocator.num_alloc_retries: the agent
-- param at = NULL: the instant, in UTC; without it, each life's failure, or the end of the record where none failed
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault; NULL where an instant was given, or nothing failed
-- column rank: global rank, where known
-- column ts: when the counter was read, in UTC
-- column before_s: seconds before the instant
-- column retries: the counter, which counts from the process's start
-- column new_retries: since the reading before; of the first, the counter itself
-- column num_ooms: failed allocations so far
-- column allocated_bytes: of tensors, at that reading
-- column reserved_bytes: that the framework had taken
-- column stream: source of the row
-- column seq: its place in the stream
WITH counted AS (
    SELECT
        reached.worker, reached.life, reached.failure, reached.at_ts, allocator.* EXCLUDE (worker, incarnation),
        num_alloc_retries - coalesce(lag(num_alloc_retries) OVER (
            PARTITION BY allocator.stream, allocator.incarnation, reached.life, allocator.device_id ORDER BY allocator.seq
        ), 0) AS new_retries
    FROM reached($at) AS reached
    INNER JOIN allocator
        ON allocator.stream = reached.stream
        AND allocator.worker = reached.worker
        AND allocator.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND allocator.seq <= reached.last_seq
    WHERE allocator.num_alloc_retries IS NOT NULL
)

SELECT
    worker, life, failure, rank, ts, date_diff('microsecond', ts, at_ts) / 1e6 AS before_s,
    num_alloc_retries AS retries, new_retries, num_ooms, allocated_bytes, reserved_bytes, stream, seq
FROM counted
WHERE new_retries > 0
ORDER BY worker, life, ts NULLS LAST, stream, seq;
