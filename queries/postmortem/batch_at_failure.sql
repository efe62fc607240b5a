-- Who was in the batch and in the queue at the failure, those that held the most blocks first
-- needs request.event: the agent, or a log with the engine's dump of the failing batch
-- param at = NULL: another instant, in UTC; then what was dumped at the failure is left out
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault; NULL where an instant was given, or nothing failed
-- column at_ts: the instant, in UTC; NULL where the source tells no time
-- column request_id: as the engine names it
-- column state: running, waiting or preempted
-- column told: dumped at the failure, or followed: its last event before
-- column prompt_tokens: prompt length
-- column computed_tokens: computed so far
-- column output_tokens: generated so far
-- column scheduled_tokens: in the failing step
-- column kv_blocks: blocks held
-- column held_ratio: of all blocks that these requests hold, 0 to 1; a shared block counts for each
-- column cohort: cohort label
-- column tenant: tenant
-- column adapter: adapter
-- column age_s: seconds since it was first seen; NULL where a time is unknown
-- column sample_weight: how many requests it stands for
-- column stream: source of the row
-- column seq: its place in the stream
WITH seen AS (
    SELECT
        reached.worker, reached.life, reached.failure, reached.failure_stream, reached.failure_seq, reached.at_ts,
        request.* EXCLUDE (worker, incarnation), request.seq > reached.last_seq AS dumped,
        min(request.ts) OVER (
            PARTITION BY reached.worker, reached.life, reached.failure_stream, reached.failure_seq, request.request_id
        ) AS first_ts
    FROM reached($at) AS reached
    INNER JOIN request
        ON request.stream = reached.stream
        AND request.worker = reached.worker
        AND request.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND (
            request.seq <= reached.last_seq
            -- What is written of the failing batch stands behind the failure.
            OR (
                request.sampled_by IN ('oom', 'scheduler_dump') AND reached.failure IS NOT NULL
                AND (request.ts IS NULL OR reached.at_ts IS NULL OR request.ts <= reached.at_ts + INTERVAL 60 SECONDS)
            )
        )
    WHERE request.event NOT LIKE 'tool_wait%' AND request.request_id IS NOT NULL
),

latest AS (
    SELECT *
    FROM seen
    QUALIFY row_number() OVER (
        PARTITION BY worker, life, failure_stream, failure_seq, request_id ORDER BY dumped DESC, ts DESC NULLS LAST, seq DESC
    ) = 1
        -- Where everybody was dumped, who was not is not there any more.
        AND (dumped OR NOT bool_or(dumped) OVER (PARTITION BY worker, life, failure_stream, failure_seq))
)

SELECT
    worker, life, failure, at_ts, request_id,
    CASE
        WHEN event IN ('preempted', 'swapped_out') THEN 'preempted'
        WHEN event IN ('arrived', 'queued') THEN 'waiting'
        ELSE 'running'
    END AS state,
    CASE WHEN dumped THEN 'dumped' ELSE 'followed' END AS told,
    prompt_tokens, computed_tokens, output_tokens, scheduled_tokens, kv_blocks,
    round(kv_blocks / nullif(sum(kv_blocks) OVER (PARTITION BY worker, life, failure_stream, failure_seq), 0), 4)
        AS held_ratio,
    cohort, tenant, adapter, date_diff('microsecond', first_ts, at_ts) / 1e6 AS age_s, sample_weight, stream, seq
FROM latest
WHERE event NOT IN ('finished', 'cancelled', 'rejected', 'blocks_freed')
ORDER BY worker, at_ts, life, kv_blocks DESC NULLS LAST, scheduled_tokens DESC NULLS LAST, stream, seq;
