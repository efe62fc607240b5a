-- When conversations waited for tools
-- column session_id: conversation
-- column request_id: the call, as the source names it
-- column started_us: when the tool was called, in microseconds since 1970
-- column ended_us: when its result came
SELECT
  session_id,
  request_id,
  epoch_us(min(ts) FILTER (WHERE event = 'tool_wait_started')) AS started_us,
  epoch_us(max(ts) FILTER (WHERE event = 'tool_wait_ended')) AS ended_us
FROM request
WHERE event IN ('tool_wait_started', 'tool_wait_ended') AND session_id IS NOT NULL
GROUP BY session_id, request_id
HAVING started_us IS NOT NULL AND ended_us IS NOT NULL
ORDER BY session_id, started_us, request_id;
