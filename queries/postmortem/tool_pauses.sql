-- Pauses for a tool: how long, what was done with the blocks meanwhile, and what they held
-- needs request.event=tool_wait_started: otlp, or a trace
-- column worker: engine instance
-- column session_id: conversation
-- column request_id: the request, or the tool call
-- column started_ts: when, in UTC
-- column ended_ts: when; NULL where no end was seen
-- column pause_s: seconds; NULL where no end was seen
-- column open_s: seconds until the last event of any request, where no end was seen
-- column tool_action: preserve, offload or discard; NULL where it is not told
-- column held_blocks: KV blocks held when it began; NULL where it is not told
-- column held_tokens: tokens computed by then; NULL where it is not told
-- column stream: source of the row
-- column seq: place of the start in the stream
WITH wait AS (
    SELECT
        *, lead(event) OVER later AS next_event, lead(ts) OVER later AS next_ts,
        (SELECT max(ts) FROM request AS last WHERE last.worker = request.worker) AS last_ts
    FROM request
    WHERE event IN ('tool_wait_started', 'tool_wait_ended')
    WINDOW later AS (PARTITION BY stream, worker, session_id, request_id ORDER BY seq)
)

SELECT
    worker, session_id, request_id, ts AS started_ts,
    CASE WHEN next_event = 'tool_wait_ended' THEN next_ts END AS ended_ts,
    CASE WHEN next_event = 'tool_wait_ended' THEN date_diff('microsecond', ts, next_ts) / 1e6 END AS pause_s,
    CASE WHEN next_event IS DISTINCT FROM 'tool_wait_ended' THEN date_diff('microsecond', ts, last_ts) / 1e6 END AS open_s,
    tool_action, kv_blocks AS held_blocks, computed_tokens AS held_tokens, stream, seq
FROM wait
WHERE event = 'tool_wait_started'
ORDER BY worker, ts, stream, seq;
