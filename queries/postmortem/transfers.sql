-- KV transfers, and which were in flight at the failure
-- needs transfer.op: the agent
-- param at = NULL: the instant, in UTC; without it, the worker's next failure after the transfer
-- column worker: engine instance
-- column op: send, receive, offload, onboard or swap
-- column peer: with whom
-- column started_ts: when it began, in UTC; NULL where no duration is told
-- column ended_ts: when it was reported as done
-- column duration_s: seconds; NULL where it is not told
-- column bytes: how many; NULL where it is not told
-- column tokens: how many
-- column mib_per_s: bytes over duration
-- column in_flight: whether it was under way at the instant; NULL where no duration is told
-- column failure: the failure that is meant; NULL where an instant was given, or none came
-- column stream: source of the row
-- column seq: its place in the stream
WITH timed AS (
    SELECT *, ts - to_microseconds(duration_us) AS started_ts
    FROM transfer
),

-- A transfer that outlived a failure was reported after it: its start decides which failure is meant.
met AS (
    SELECT timed.*, failed.name AS failure, coalesce(CAST($at AS TIMESTAMP), failed.ts) AS at_ts
    FROM (SELECT *, coalesce(started_ts, ts) AS from_ts FROM timed) AS timed
    ASOF LEFT JOIN (SELECT worker, name, ts FROM failure WHERE ts IS NOT NULL AND NOT soft AND $at IS NULL) AS failed
        ON failed.worker = timed.worker AND timed.from_ts <= failed.ts
)

SELECT
    worker, op, peer, started_ts, ts AS ended_ts, duration_us / 1e6 AS duration_s, bytes, tokens,
    round(bytes / 1048576 / nullif(duration_us / 1e6, 0), 1) AS mib_per_s,
    CASE WHEN duration_us IS NOT NULL THEN coalesce(started_ts <= at_ts AND ts >= at_ts, FALSE) END AS in_flight,
    failure, stream, seq
FROM met
ORDER BY in_flight DESC NULLS LAST, worker, ts NULLS LAST, stream, seq;
