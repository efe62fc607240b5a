-- Ranks compared at the failure: what each had allocated, reserved and left, beside the mean of all
-- needs allocator.allocated_bytes or memory.bytes: the agent, or a log of several ranks
-- param at = NULL: the instant, in UTC; without it, each life's failure, or the end of the record where none failed
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault; NULL where an instant was given, or nothing failed
-- column rank: global rank
-- column figure: allocated, reserved, or a component with which figure of it
-- column bytes: the rank's last one by then
-- column mean_bytes: of all ranks that tell it
-- column over_mean_ratio: how much above the mean, as a share of it; below 0 under it
-- column ranks: how many tell it
-- column is_failed: whether this rank's row is the failure
WITH told AS (
    SELECT stream, seq, ts, worker, incarnation, rank, unnest([
        {'figure': 'allocated', 'bytes': allocated_bytes}, {'figure': 'reserved', 'bytes': reserved_bytes}
    ], recursive := TRUE)
    FROM allocator
    UNION ALL
    SELECT stream, seq, ts, worker, incarnation, rank, concat_ws(' ', component, owner), bytes
    FROM memory
),

latest AS (
    SELECT reached.worker, reached.life, reached.failure, reached.failure_stream, reached.failure_seq, told.rank, told.figure, told.bytes
    FROM reached($at) AS reached
    INNER JOIN told
        ON told.stream = reached.stream
        AND told.worker = reached.worker
        AND told.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND told.seq <= reached.last_seq
    WHERE told.rank IS NOT NULL AND told.bytes IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY reached.worker, reached.life, reached.failure_stream, reached.failure_seq, told.rank, told.figure
        ORDER BY told.ts DESC NULLS LAST, told.seq DESC
    ) = 1
),

compared AS (
    SELECT
        *, avg(bytes) OVER alike AS mean_bytes, count(*) OVER alike AS ranks
    FROM latest
    WINDOW alike AS (PARTITION BY worker, life, failure_stream, failure_seq, figure)
)

SELECT
    compared.worker, compared.life, compared.failure, compared.rank, compared.figure, compared.bytes,
    CAST(round(mean_bytes) AS BIGINT) AS mean_bytes, round(compared.bytes / nullif(mean_bytes, 0) - 1, 4) AS over_mean_ratio,
    ranks, failure.rank IS NOT DISTINCT FROM compared.rank AS is_failed
FROM compared
LEFT JOIN failure ON failure.stream = compared.failure_stream AND failure.seq = compared.failure_seq
WHERE ranks > 1
ORDER BY compared.worker, compared.life, abs(over_mean_ratio) DESC, compared.figure, compared.rank;
