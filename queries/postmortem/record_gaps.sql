-- Gaps of the record itself: rows lost, sources that failed, and times in which a source that tells regularly was silent
-- column kind: hole (numbers missing in a stream), loss (as its collector counted), collector (one that is not well), silence
-- column worker: engine instance
-- column stream: which source
-- column seq: place in the stream of the row that shows it
-- column from_ts: when it began, in UTC; NULL where the source tells no time
-- column to_ts: when it ended
-- column length_s: seconds; a silence is ten times the stream's usual distance between two rows, and 5 s at least
-- column count: rows or records lost; NULL where nobody counted
-- column what: in words
WITH placed AS (
    SELECT
        stream, seq, ts, worker, source, kind,
        lag(seq) OVER told AS seq_before, lag(ts) OVER told AS ts_before
    FROM events
    WINDOW told AS (PARTITION BY stream ORDER BY seq)
),

paced AS (
    SELECT *, date_diff('microsecond', ts_before, ts) / 1e6 AS apart_s
    FROM placed
    WHERE source IN ('agent', 'nvml', 'amdsmi', 'host', 'prometheus')
),

pace AS (
    SELECT stream, quantile_disc(apart_s, 0.9) AS usual_s
    FROM paced
    WHERE apart_s > 0
    GROUP BY stream
    HAVING count(*) >= 5
)

SELECT
    'hole' AS kind, worker, stream, seq, ts_before AS from_ts, ts AS to_ts,
    date_diff('microsecond', ts_before, ts) / 1e6 AS length_s, seq - seq_before - 1 AS count,
    concat('rows ', seq_before + 1, ' to ', seq - 1, ' are not there') AS what
FROM placed
WHERE seq > seq_before + 1
UNION ALL
SELECT 'loss', worker, stream, seq, NULL, ts, NULL, count, concat_ws(': ', reason, detail)
FROM loss
UNION ALL
SELECT 'collector', worker, stream, seq, ts, NULL, NULL, errors, concat_ws(': ', name, state, detail)
FROM collector
WHERE state <> 'ok' OR errors > 0
UNION ALL
SELECT
    'silence', paced.worker, paced.stream, paced.seq, paced.ts_before, paced.ts, paced.apart_s, NULL,
    concat('usually ', pace.usual_s, ' s apart')
FROM paced
INNER JOIN pace USING (stream)
WHERE paced.apart_s > greatest(10 * pace.usual_s, 5)
ORDER BY worker NULLS FIRST, stream, seq, kind;
