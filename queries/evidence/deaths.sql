-- Fatal faults of a worker near an instant: the engine's own word that it is dead
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column rank_name: rank or process as printed
-- column code: engine_dead, watchdog, ...
-- column detail: as printed, redacted
SELECT stream, seq, line, rank_name, code, detail
FROM fault
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND fatal AND abs(seq - $seq) < 400
ORDER BY abs(seq - $seq), seq
LIMIT 16;
