-- What captured graphs took, by shape
-- needs graph.bytes or graph.shape or memory.component=graph_pool: the agent, prometheus (SGLang), or an engine log
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column shape: batch shape, number of shapes, or all; NULL where only the pool is told
-- column mode: FULL, PIECEWISE, eager, ...; pool: the figure of the whole pool
-- column bytes: what the capture took
-- column mib: the same in MiB, to one decimal
-- column so_far_bytes: of this rank's captures so far, this one too; the sum over shapes is not the pool's where they share one
-- column before_bytes: in use on the device before
-- column after_bytes: and after
-- column shared: whether shapes share a pool
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
WITH told AS (
    SELECT
        worker, incarnation, rank, shape, mode, coalesce(bytes, after_bytes - before_bytes) AS bytes, before_bytes,
        after_bytes, shared, stream, seq, line
    FROM graph
    UNION ALL
    SELECT worker, incarnation, rank, shape, concat_ws(': ', 'pool', owner), bytes, NULL, NULL, NULL, stream, seq, line
    FROM memory
    WHERE component = 'graph_pool'
)

SELECT
    worker, incarnation, rank, shape, mode, bytes, round(bytes / 1048576, 1) AS mib,
    CASE WHEN mode IS NULL OR NOT starts_with(mode, 'pool') THEN
        CAST(sum(bytes) FILTER (mode IS NULL OR NOT starts_with(mode, 'pool')) OVER (
            PARTITION BY stream, worker, incarnation, rank ORDER BY seq
        ) AS BIGINT)
    END AS so_far_bytes,
    before_bytes, after_bytes, shared, stream, seq, line
FROM told
ORDER BY worker, stream, seq;
