-- Every failure, refusal, kill and memory-like fault, in order, each numbered by the group of failures that it belongs to
-- column what: oom, refusal, killed or fault
-- column name: error type, gate, or fault code
-- column soft: the engine itself said that it goes on (a retraction, a fallback)
-- column episode: groups rows of one worker and incarnation between which the worker made no progress
WITH failure AS (
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'oom' AS what, resource, api, coalesce(error_type, api) AS name, message, fatal, stack_id,
        coalesce(NOT fatal, FALSE) AS soft
    FROM oom
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'refusal', resource, 'engine', gate, message, NULL, stack_id, FALSE
    FROM refusal
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'killed', 'host', 'system', CASE WHEN signal = 9 THEN 'sigkill' ELSE 'vanished' END, detail, TRUE, NULL, FALSE
    FROM lifecycle
    -- A process that had failed before, or whose engine had given up, was not killed out of the blue: that is its shutdown.
    WHERE phase = 'killed' AND NOT EXISTS (
        SELECT 1 FROM fault
        WHERE fault.stream = lifecycle.stream AND fault.worker = lifecycle.worker
            AND fault.incarnation = lifecycle.incarnation AND fault.seq < lifecycle.seq
            AND (fault.code = 'engine_dead' OR (fault.code = 'exception' AND fault.rank_name <> 'APIServer'))
    )
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'fault', NULL, 'engine', code, detail, fatal, stack_id, FALSE
    FROM fault
    WHERE code NOT IN ('exception', 'engine_dead')
),

progress AS (
    SELECT stream, seq, worker, incarnation
    FROM throughput
    WHERE coalesce(generation_tokens_per_s, 0) > 0 OR coalesce(prompt_tokens_per_s, 0) > 0
    UNION ALL
    SELECT stream, seq, worker, incarnation
    FROM step
    WHERE NOT coalesce(dumped, FALSE)
    UNION ALL
    SELECT stream, seq, worker, incarnation
    FROM lifecycle
    WHERE phase IN ('ready', 'serving')
),

mark AS (
    SELECT stream, seq, worker, incarnation, soft, TRUE AS fails FROM failure
    UNION ALL
    SELECT stream, seq, worker, incarnation, NULL, FALSE FROM progress
),

counted AS (
    SELECT
        *,
        max(CASE WHEN NOT fails THEN seq END) OVER (
            PARTITION BY worker, incarnation, stream ORDER BY seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_progress,
        max(CASE WHEN fails AND NOT soft THEN seq END) OVER (
            PARTITION BY worker, incarnation, stream ORDER BY seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS last_failure
    FROM mark
),

numbered AS (
    SELECT
        stream, seq,
        sum(CASE WHEN last_failure IS NULL OR coalesce(last_progress, -1) > last_failure THEN 1 ELSE 0 END) OVER (
            PARTITION BY worker, incarnation, stream ORDER BY seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS episode
    FROM counted
    WHERE fails AND NOT soft
)

SELECT failure.*, coalesce(numbered.episode, 0) AS episode
FROM failure
LEFT JOIN numbered USING (stream, seq)
ORDER BY failure.stream, failure.seq;
