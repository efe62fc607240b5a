-- What happened to one request, in order
-- needs request.event: the agent, otlp, a trace, or a log with the engine's dump of the failing batch
-- param request = NULL: its id, as the engine names it; without it, the request that held the most KV blocks
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column request_id: as the engine names it
-- column event: what happened
-- column since_first_s: seconds since it was first seen
-- column step_id: in which step
-- column prompt_tokens: prompt length
-- column cached_tokens: of these from the prefix cache
-- column scheduled_tokens: in this step
-- column computed_tokens: computed so far
-- column output_tokens: generated so far
-- column kv_blocks: blocks held
-- column kv_blocks_delta: change
-- column tool_action: preserve, offload or discard
WITH chosen AS (
    SELECT coalesce(
        CAST($request AS VARCHAR),
        (SELECT request_id FROM request ORDER BY kv_blocks DESC NULLS LAST, prompt_tokens DESC NULLS LAST, stream, seq LIMIT 1)
    ) AS request_id
)

SELECT
    request.stream, request.seq, request.line, request.ts, request.worker, request.request_id, request.event,
    date_diff('microsecond', min(request.ts) OVER (PARTITION BY request.worker), request.ts) / 1e6 AS since_first_s,
    request.step_id, request.prompt_tokens, request.cached_tokens, request.scheduled_tokens, request.computed_tokens,
    request.output_tokens, request.kv_blocks, request.kv_blocks_delta, request.tool_action
FROM request
INNER JOIN chosen USING (request_id)
ORDER BY request.worker, request.ts NULLS LAST, request.stream, request.seq;
