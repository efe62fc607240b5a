-- Signs that an earlier life of this worker, or another worker, had just ended or was ending, and that this one is a restart
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column sign: earlier_end (an earlier incarnation or another worker stopped, drained or died), restart (a supervisor restarts) or earlier_failure
-- column phase: the phase, or the fault's code
-- column detail: what the source said of it
SELECT stream, seq, line, worker, incarnation,
    CASE WHEN lifecycle.detail LIKE 'restart:%' THEN 'restart' ELSE 'earlier_end' END AS sign, phase, detail
FROM lifecycle
WHERE stream = $stream
    AND (
        (phase IN ('stopped', 'draining', 'killed') AND seq < $seq AND (worker <> $worker OR incarnation <> $incarnation))
        OR (lifecycle.detail LIKE 'restart:%' AND abs(seq - $seq) < 200)
    )
UNION ALL
SELECT stream, seq, line, worker, incarnation, 'earlier_failure', code, detail
FROM fault
WHERE stream = $stream AND code = 'engine_dead' AND seq < $seq AND (worker <> $worker OR incarnation <> $incarnation)
ORDER BY seq DESC
LIMIT 64;
