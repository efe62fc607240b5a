-- Adapters that were resident at the failure, and those that had been evicted
-- needs adapter.op or adapter.slots: the agent, or prometheus (SGLang: slots only)
-- param at = NULL: the instant, in UTC; without it, each life's failure, or the end of the record where none failed
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault; NULL where an instant was given, or nothing failed
-- column rank: global rank, where known
-- column name: which adapter; NULL where only a count is told
-- column state: resident, evicted, or counted
-- column lora_rank: its rank
-- column bytes: its size
-- column since_ts: when that began, in UTC
-- column loads: how often it was loaded until then
-- column resident_bytes: of all that were resident then
-- column slots: slots in use then
-- column stream: source of the row
-- column seq: its place in the stream
WITH told AS (
    SELECT
        reached.worker, reached.life, reached.failure, reached.failure_stream, reached.failure_seq,
        adapter.* EXCLUDE (worker, incarnation),
        count(*) FILTER (adapter.op = 'loaded') OVER (
            PARTITION BY reached.worker, reached.life, reached.failure_stream, reached.failure_seq, adapter.stream, adapter.name
            ORDER BY adapter.seq
        ) AS loads
    FROM reached($at) AS reached
    INNER JOIN adapter
        ON adapter.stream = reached.stream
        AND adapter.worker = reached.worker
        AND adapter.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND adapter.seq <= reached.last_seq
),

-- What is resident in all was last told with whichever adapter came or went last.
latest AS (
    SELECT
        * EXCLUDE (resident_bytes, slots),
        first_value(resident_bytes) OVER newest AS resident_bytes, first_value(slots) OVER newest AS slots
    FROM told
    WINDOW newest AS (PARTITION BY worker, life, failure_stream, failure_seq, stream ORDER BY seq DESC)
    QUALIFY row_number() OVER (
        PARTITION BY worker, life, failure_stream, failure_seq, stream, name ORDER BY seq DESC
    ) = 1
)

SELECT
    worker, life, failure, rank, name,
    CASE WHEN op IS NULL THEN 'counted' WHEN op = 'evicted' THEN 'evicted' ELSE 'resident' END AS state,
    lora_rank, bytes, ts AS since_ts, loads, resident_bytes, slots, stream, seq
FROM latest
ORDER BY worker, life, stream, state = 'evicted', bytes DESC NULLS LAST, name;
