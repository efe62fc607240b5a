-- What grew before each failure: KV use, queue, throughput and batch, over the last 30 reports of each
-- needs kv_pool.usage_ratio or throughput.running_requests or step.running_requests or step.prefill_tokens: the agent, prometheus, or an engine log
-- column stream: source of the rows
-- column seq: place in the stream of the failure: the first of its group, or the first sign that blocks ran short
-- column line: line of the source that tells it
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column failure: error type, gate, fault code, or preemption where only the reports show it
-- column metric: kv_usage_ratio (0 to 1), running_requests, waiting_requests, prompt_tokens_per_s, generation_tokens_per_s, batch_prompt_tokens
-- column reports: how many reports, at most 30; the batch that the engine dumped because of the failure counts as the last
-- column first_value: at the earliest of them
-- column last_value: at the latest
-- column max_value: the largest
-- column grew: last less first
-- column first_line: line of the source with the earliest
-- column last_line: with the latest
-- column max_line: with the largest, the first time
WITH pressed AS (
    SELECT *, count(*) OVER (PARTITION BY stream, worker, incarnation) AS times
    FROM kv_pressure
),

-- What the engine survived is one group per resource; usage reports alone are a sign from the second one on.
candidate AS (
    SELECT stream, seq, line, worker, incarnation, name AS failure, concat(resource, episode, soft) AS of_group
    FROM failure
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, 'preemption', 'kv_blocks0true'
    FROM pressed
    WHERE times >= 2
),

failed AS (
    SELECT stream, seq, line, worker, incarnation, failure
    FROM candidate
    QUALIFY row_number() OVER (PARTITION BY stream, worker, incarnation, of_group ORDER BY seq) = 1
),

reported AS (
    SELECT stream, seq, line, worker, incarnation, FALSE AS dumped, 1 AS n, 'kv_usage_ratio' AS metric, usage_ratio AS value
    FROM kv_pool
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 2, 'running_requests', running_requests FROM throughput
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 2, 'running_requests', running_requests FROM step
    WHERE dumped IS DISTINCT FROM TRUE
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 3, 'waiting_requests', waiting_requests FROM throughput
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 3, 'waiting_requests', waiting_requests FROM step
    WHERE dumped IS DISTINCT FROM TRUE
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 4, 'prompt_tokens_per_s', prompt_tokens_per_s FROM throughput
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, 5, 'generation_tokens_per_s', generation_tokens_per_s
    FROM throughput
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, coalesce(dumped, FALSE), 6, 'batch_prompt_tokens', prefill_tokens FROM step
),

-- One line may give a figure twice (a batch and a throughput row): the lines count, and those without one by their seq.
near_failure AS (
    SELECT
        failed.stream, failed.seq, failed.line, failed.worker, failed.incarnation, failed.failure, reported.n,
        reported.metric, reported.value, reported.seq AS at_seq, reported.line AS at_line
    FROM failed
    INNER JOIN reported
        ON reported.stream = failed.stream
        AND reported.worker = failed.worker
        AND reported.incarnation IS NOT DISTINCT FROM failed.incarnation
        AND (reported.seq <= failed.seq OR (reported.dumped AND reported.seq <= failed.seq + 400))
    WHERE reported.value IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY failed.stream, failed.seq, reported.metric, coalesce(reported.line, -reported.seq)
        ORDER BY reported.seq
    ) = 1
),

last_reports AS (
    SELECT *
    FROM near_failure
    QUALIFY row_number() OVER (PARTITION BY stream, seq, metric ORDER BY at_seq DESC) <= 30
)

SELECT
    stream, seq, line, worker, incarnation, failure, metric,
    count(*) AS reports,
    round(arg_min(value, at_seq), 4) AS first_value,
    round(arg_max(value, at_seq), 4) AS last_value,
    round(max(value), 4) AS max_value,
    round(arg_max(value, at_seq) - arg_min(value, at_seq), 4) AS grew,
    arg_min(at_line, at_seq) AS first_line,
    arg_max(at_line, at_seq) AS last_line,
    arg_min(at_line, {'down': -value, 'at': at_seq}) AS max_line
FROM last_reports
GROUP BY stream, seq, line, worker, incarnation, failure, n, metric
ORDER BY stream, seq, n;
