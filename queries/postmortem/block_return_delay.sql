-- How long blocks stayed after a request had finished or was cancelled, the longest first
-- needs request.event=blocks_freed: the agent
-- column worker: engine instance
-- column request_id: as the engine names it
-- column ended: finished or cancelled
-- column ended_ts: when, in UTC
-- column freed_ts: when its blocks were back in the pool; NULL where they never were
-- column delay_s: seconds between the two; NULL where they never came back
-- column blocks: that it held
-- column held_s: seconds that they had stayed by the stream's last event of any request, where they never came back
-- column stream: source of the row
-- column seq: place of the end in the stream
WITH life AS (
    SELECT
        stream, worker, incarnation, request_id, event, seq, ts, kv_blocks,
        lead(ts) OVER later AS next_ts, lead(event) OVER later AS next_event,
        (SELECT max(ts) FROM request AS last WHERE last.stream = request.stream) AS last_ts
    FROM request
    WHERE event IN ('finished', 'cancelled', 'blocks_freed')
    WINDOW later AS (PARTITION BY stream, worker, incarnation, request_id ORDER BY seq)
),

-- A source that never tells of blocks says nothing of their delay.
teller AS (SELECT DISTINCT stream FROM request WHERE event = 'blocks_freed')

SELECT
    worker, request_id, event AS ended, ts AS ended_ts,
    CASE WHEN next_event = 'blocks_freed' THEN next_ts END AS freed_ts,
    CASE WHEN next_event = 'blocks_freed' THEN date_diff('microsecond', ts, next_ts) / 1e6 END AS delay_s,
    kv_blocks AS blocks,
    CASE WHEN next_event IS DISTINCT FROM 'blocks_freed' THEN date_diff('microsecond', ts, last_ts) / 1e6 END AS held_s,
    stream, seq
FROM life
SEMI JOIN teller USING (stream)
WHERE event <> 'blocks_freed'
ORDER BY coalesce(delay_s, held_s) DESC NULLS LAST, worker, stream, seq;
