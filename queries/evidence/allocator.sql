-- The framework allocator's own counters at an instant, as a memory summary or a recorder told them: those nearest to it
-- params: stream, worker, incarnation, seq
-- column stream: source of the rows
-- column seq: place in the stream of the row that tells the retries
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column alloc_retries: times that the driver refused, cached blocks were given back and the driver was asked again
-- column ooms: times that this did not help
-- column inactive_split_bytes: free parts of blocks of which another part is in use: what could not be given back
WITH near AS (
    SELECT stream, seq, line, num_alloc_retries, num_ooms, inactive_split_bytes
    FROM allocator
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND abs(seq - $seq) < 300
)

SELECT
    retried.stream, retried.seq, retried.line, retried.num_alloc_retries AS alloc_retries, retried.num_ooms AS ooms,
    split.inactive_split_bytes
FROM near AS retried
LEFT JOIN near AS split
    ON split.inactive_split_bytes IS NOT NULL AND split.seq >= retried.seq AND split.seq < retried.seq + 20
WHERE retried.num_alloc_retries IS NOT NULL
QUALIFY row_number() OVER (ORDER BY abs(retried.seq - $seq), retried.seq, abs(split.seq - retried.seq), split.seq) = 1
ORDER BY seq;
