-- Where each worker's newest life begins and ends, as far as it was recorded
-- column stream: source of the row
-- column seq: behind the last row of that life
-- column line: line of that row, 1-based; NULL where the source has no lines
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column ts: when its last row was written, in UTC; NULL where the source tells no time
-- column ts_quality: how far ts is to be trusted
-- column first_seq: of its first row
SELECT stream, max(seq) + 1 AS seq, arg_max(line, seq) AS line, worker, incarnation, arg_max(ts, seq) AS ts,
    arg_max(ts_quality, seq) AS ts_quality, min(seq) AS first_seq
FROM lifecycle
WHERE phase NOT IN ('stopped', 'killed', 'draining')
GROUP BY stream, worker, incarnation
QUALIFY row_number() OVER (PARTITION BY stream, worker ORDER BY max(seq) DESC) = 1
ORDER BY stream, first_seq;
