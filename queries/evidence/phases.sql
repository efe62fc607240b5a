-- The phases of a worker's life before an instant, the last first
-- params: stream, worker, incarnation, seq
-- column phase: as in lifecycle
SELECT stream, seq, line, rank, rank_name, phase, detail
FROM lifecycle
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    AND phase NOT IN ('killed')
ORDER BY seq DESC
LIMIT 200;
