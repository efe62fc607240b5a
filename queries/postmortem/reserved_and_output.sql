-- Reserved against actual output by cohort: what admission set aside, and what was generated
-- needs request.output_tokens: the agent, otlp, or a trace
-- needs request.reserved_output_tokens or request.max_output_tokens: the agent, otlp, or a trace
-- column worker: engine instance
-- column cohort: cohort label; NULL where none is told
-- column requests: finished ones, each counted as often as it stands for
-- column reserved_p50_tokens: half of them had no more reserved (max_output_tokens where the reservation is not told)
-- column output_p50_tokens: half of them generated no more
-- column output_p95_tokens: 95 of 100 generated no more
-- column output_p99_tokens: 99 of 100 generated no more
-- column output_max_tokens: the most
-- column reserved_tokens: reserved in total
-- column output_tokens: generated in total
-- column used_ratio: generated per reserved token, 0 to 1
WITH ended AS (
    SELECT
        worker, incarnation, request_id, max(cohort) AS cohort,
        coalesce(max(reserved_output_tokens), max(max_output_tokens)) AS reserved, max(output_tokens) AS output,
        coalesce(max(sample_weight), 1) AS weight
    FROM request
    WHERE request_id IS NOT NULL
    GROUP BY worker, incarnation, stream, request_id
    HAVING bool_or(event = 'finished')
),

-- The p-th share of the weight lies at or below a value: nearest rank, which needs no value between two.
ranked AS (
    SELECT
        *,
        sum(weight) OVER (PARTITION BY worker, cohort ORDER BY output, request_id) AS output_weight,
        sum(weight) OVER (PARTITION BY worker, cohort ORDER BY reserved, request_id) AS reserved_weight,
        sum(weight) OVER (PARTITION BY worker, cohort) AS whole
    FROM ended
    WHERE output IS NOT NULL AND reserved IS NOT NULL
)

SELECT
    worker, cohort, round(max(whole), 1) AS requests,
    min(reserved) FILTER (reserved_weight >= 0.5 * whole) AS reserved_p50_tokens,
    min(output) FILTER (output_weight >= 0.5 * whole) AS output_p50_tokens,
    min(output) FILTER (output_weight >= 0.95 * whole) AS output_p95_tokens,
    min(output) FILTER (output_weight >= 0.99 * whole) AS output_p99_tokens,
    max(output) AS output_max_tokens,
    CAST(round(sum(reserved * weight)) AS BIGINT) AS reserved_tokens,
    CAST(round(sum(output * weight)) AS BIGINT) AS output_tokens,
    round(sum(output * weight) / nullif(sum(reserved * weight), 0), 4) AS used_ratio
FROM ranked
GROUP BY worker, cohort
ORDER BY worker, reserved_tokens DESC, cohort;
