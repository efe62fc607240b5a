-- The longest prompts that came in just before the failure, at most 20
-- needs request.prompt_tokens: the agent, otlp, or a log with the engine's dump of the failing batch
-- param at = NULL: the instant, in UTC; without it, each life's failure, or the end of the record where none failed
-- param window_s = 60: seconds before it that count; requests without a time always do
-- column worker: engine instance
-- column life: which life of that worker
-- column failure: error type, gate or fault; NULL where an instant was given, or nothing failed
-- column request_id: as the engine names it
-- column came_ts: when it was first seen, in UTC
-- column before_s: seconds before the instant
-- column prompt_tokens: prompt length
-- column cached_tokens: of these from the prefix cache
-- column uncached_tokens: that had to be computed; NULL where it is not told how many were cached
-- column max_output_tokens: allowed output
-- column cohort: cohort label
-- column tenant: tenant
-- column adapter: adapter
-- column stream: source of the row
-- column seq: its place in the stream
WITH came AS (
    SELECT
        reached.worker, reached.life, reached.failure, reached.at_ts, request.request_id,
        min(request.ts) AS came_ts,
        max(request.prompt_tokens) AS prompt_tokens,
        arg_min(request.cached_tokens, request.seq) FILTER (request.event <> 'resumed') AS cached_tokens,
        max(request.max_output_tokens) AS max_output_tokens,
        max(request.cohort) AS cohort, max(request.tenant) AS tenant, max(request.adapter) AS adapter,
        request.stream, min(request.seq) AS seq
    FROM reached($at) AS reached
    INNER JOIN request
        ON request.stream = reached.stream
        AND request.worker = reached.worker
        AND request.incarnation IS NOT DISTINCT FROM reached.incarnation
        AND (request.seq <= reached.last_seq OR (request.sampled_by = 'scheduler_dump' AND reached.failure IS NOT NULL))
    WHERE request.prompt_tokens IS NOT NULL
    GROUP BY reached.worker, reached.life, reached.failure, reached.at_ts, request.stream, request.request_id
)

SELECT
    worker, life, failure, request_id, came_ts, date_diff('microsecond', came_ts, at_ts) / 1e6 AS before_s,
    prompt_tokens, cached_tokens, prompt_tokens - cached_tokens AS uncached_tokens, max_output_tokens, cohort, tenant,
    adapter, stream, seq
FROM came
WHERE came_ts IS NULL OR at_ts IS NULL OR date_diff('microsecond', came_ts, at_ts) / 1e6 <= CAST($window_s AS DOUBLE)
ORDER BY prompt_tokens DESC, worker, stream, seq
LIMIT 20;
