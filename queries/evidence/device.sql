-- Device figures before an instant, the first first: what was in use before the worker had loaded anything
-- params: stream, worker, incarnation, seq, line
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column rank: global rank, where known
-- column device_id: device index as the process sees it
-- column total_bytes: size of the device
-- column used_bytes: in use by anybody
-- column free_bytes: free
-- column budget_bytes: what the engine may use
-- column resolution_bytes: half a unit of the last printed digit; NULL where exact
SELECT stream, seq, line, rank, device_id, total_bytes, used_bytes, free_bytes, budget_bytes, resolution_bytes
FROM device
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    AND NOT coalesce(line > $line, FALSE)
ORDER BY seq
LIMIT 256;
