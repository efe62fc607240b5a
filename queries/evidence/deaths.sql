-- Fatal faults of a worker near an instant: the engine's own word that it is dead
-- params: stream, worker, incarnation, seq
-- column code: engine_dead, watchdog, ...
SELECT stream, seq, line, rank_name, code, detail
FROM fault
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND fatal AND abs(seq - $seq) < 400
ORDER BY abs(seq - $seq)
LIMIT 16;
