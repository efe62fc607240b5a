-- Memory components before an instant, the last figure of each component, owner and rank
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column component: what the bytes are for, as in kind memory
-- column lifetime: how long they stay
-- column owner: which figure of it (steady, load_peak, available, estimate, ...)
-- column bytes: how many
-- column resolution_bytes: half a unit of the last printed digit
SELECT stream, seq, line, rank, rank_name, component, lifetime, owner, bytes, resolution_bytes
FROM memory
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
QUALIFY row_number() OVER (PARTITION BY component, owner, rank ORDER BY seq DESC) = 1
ORDER BY seq DESC;
