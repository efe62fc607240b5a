-- The phases of a worker's life before an instant, the last first
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column phase: as in lifecycle
-- column detail: what the source said of it
SELECT stream, seq, line, rank, rank_name, phase, detail
FROM lifecycle
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    AND phase NOT IN ('killed')
    -- A server may answer with an error while the process that computes has not loaded yet.
    AND coalesce(detail, '') <> 'a request was answered with an error'
ORDER BY seq DESC
LIMIT 200;
