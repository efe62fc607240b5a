-- How long each request waited in the queue and for its first token, the longest first, at most 50
-- needs request.event=first_token: the agent, or otlp
-- column worker: engine instance
-- column request_id: as the engine names it
-- column came_ts: when it came, in UTC
-- column queued_s: seconds until it was first scheduled; NULL where that was not seen
-- column prefill_s: seconds from there to its first token
-- column first_token_s: seconds from its coming to its first token; NULL where none came
-- column waiting_s: seconds that it had waited by the end of the record, where no token came and it did not end
-- column prompt_tokens: prompt length
-- column cached_tokens: of these from the prefix cache
-- column preempted: how often it was preempted
-- column stream: source of the rows
WITH life AS (
    SELECT
        worker, incarnation, stream, request_id,
        min(ts) FILTER (event IN ('arrived', 'queued')) AS came_ts,
        min(ts) FILTER (event IN ('admitted', 'scheduled') AND sampled_by IS DISTINCT FROM 'oom') AS started_ts,
        min(ts) FILTER (event = 'first_token') AS token_ts,
        bool_or(event IN ('finished', 'cancelled', 'rejected')) AS is_over,
        coalesce(max(output_tokens), 0) AS output_tokens, max(prompt_tokens) AS prompt_tokens, arg_min(cached_tokens, seq) FILTER (event <> 'resumed') AS cached_tokens,
        count(*) FILTER (event = 'preempted') AS preempted
    FROM request
    WHERE request_id IS NOT NULL
    GROUP BY worker, incarnation, stream, request_id
),

ending AS (SELECT stream, max(ts) AS last_ts FROM request GROUP BY stream)

SELECT
    worker, request_id, came_ts, date_diff('microsecond', came_ts, started_ts) / 1e6 AS queued_s,
    date_diff('microsecond', started_ts, token_ts) / 1e6 AS prefill_s,
    date_diff('microsecond', came_ts, token_ts) / 1e6 AS first_token_s,
    CASE WHEN token_ts IS NULL AND NOT is_over AND output_tokens = 0 THEN date_diff('microsecond', came_ts, last_ts) / 1e6 END AS waiting_s,
    prompt_tokens, cached_tokens, preempted, stream
FROM life
INNER JOIN ending USING (stream)
-- A source that never tells of a first token says nothing of the wait for it.
WHERE came_ts IS NOT NULL AND stream IN (SELECT stream FROM request WHERE event = 'first_token')
ORDER BY coalesce(first_token_s, waiting_s) DESC NULLS LAST, worker, stream, request_id
LIMIT 50;
