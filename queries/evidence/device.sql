-- Device figures before an instant, the first first: what was in use before the worker had loaded anything
-- params: stream, worker, incarnation, seq
-- column used_bytes: in use by anybody
SELECT stream, seq, line, rank, device_id, total_bytes, used_bytes, free_bytes, budget_bytes, resolution_bytes
FROM device
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
ORDER BY seq
LIMIT 256;
