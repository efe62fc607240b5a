-- Memory by component over time: each figure as it was told, in which phase, and how it differs from the one before
-- needs memory.bytes: the agent, prometheus (SGLang), or a log that prints components
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column phase: the phase of the worker's life that had last begun in that stream
-- column component: weights, adapter, kv_pool, activation, logits, workspace, collective, graph_pool, transfer, context, non_torch, other
-- column lifetime: how long the bytes stay: worker, request, iteration, allocator, headroom
-- column owner: which figure of the component (loaded, profiled, steady, estimate, ...)
-- column bytes: how many
-- column gib: the same in GiB, to three decimals
-- column change_bytes: less the figure before of the same rank, component and owner; NULL for the first
SELECT
    memory.stream, memory.seq, memory.line, memory.ts, memory.worker, memory.incarnation, memory.rank, entered.phase,
    memory.component, memory.lifetime, memory.owner, memory.bytes, round(memory.bytes / 1073741824, 3) AS gib,
    memory.bytes - lag(memory.bytes) OVER (
        PARTITION BY memory.stream, memory.worker, memory.incarnation, memory.rank, memory.component, memory.owner,
            memory.pool_id
        ORDER BY memory.seq
    ) AS change_bytes
FROM memory
ASOF LEFT JOIN lifecycle AS entered
    ON entered.stream = memory.stream
    AND entered.worker = memory.worker
    AND entered.incarnation = memory.incarnation
    AND memory.seq >= entered.seq
WHERE memory.bytes IS NOT NULL
ORDER BY memory.worker, memory.ts NULLS LAST, memory.stream, memory.seq;
