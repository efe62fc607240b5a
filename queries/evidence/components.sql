-- Memory components before an instant, the last figure of each component, owner and rank
-- params: stream, worker, incarnation, seq
-- column component: as in memory
-- column owner: which figure of it (steady, load_peak, available, estimate, ...)
SELECT stream, seq, line, rank, rank_name, component, lifetime, owner, bytes, resolution_bytes
FROM memory
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
QUALIFY row_number() OVER (PARTITION BY component, owner, rank ORDER BY seq DESC) = 1
ORDER BY seq DESC;
