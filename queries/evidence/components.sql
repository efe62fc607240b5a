-- Memory components before an instant, the last figure of each component, owner and rank, in its finest print
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
WITH figure AS (
    SELECT
        stream, seq, line, rank, rank_name, component, lifetime, owner, bytes, resolution_bytes,
        last(bytes ORDER BY seq) OVER same AS last_bytes,
        last(coalesce(resolution_bytes, 0) ORDER BY seq) OVER same AS last_resolution
    FROM memory
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    WINDOW same AS (PARTITION BY component, owner, rank)
)

SELECT stream, seq, line, rank, rank_name, component, lifetime, owner, bytes, resolution_bytes
FROM figure
-- An engine may print a figure again with fewer digits: the earlier print of the same amount is then the better one.
WHERE abs(bytes - last_bytes) <= greatest(last_resolution, coalesce(resolution_bytes, 0))
QUALIFY row_number() OVER (
    PARTITION BY component, owner, rank ORDER BY coalesce(resolution_bytes, 0), seq DESC
) = 1
ORDER BY seq DESC;
