-- The batches nearest to an instant: those that ran before it, the last first, then what the engine says of the failing one
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column dumped: printed by the engine because of the failure, so it is the failing batch itself
-- column mode: prefill, decode or mixed
-- column prefill_tokens: scheduled prompt tokens
-- column decode_tokens: scheduled decode tokens
-- column cached_tokens: prompt tokens found in the prefix cache
-- column running_requests: requests in the batch
-- column waiting_requests: requests in the queue
SELECT stream, seq, line, dumped, mode, prefill_tokens, decode_tokens, cached_tokens, running_requests, waiting_requests
FROM (
    (
        SELECT stream, seq, line, FALSE AS dumped, mode, prefill_tokens, decode_tokens, cached_tokens, running_requests,
            waiting_requests
        FROM step
        WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
            AND NOT coalesce(dumped, FALSE)
        ORDER BY seq DESC
        LIMIT 40
    )
    UNION ALL
    (
        SELECT stream, seq, line, TRUE, mode, prefill_tokens, decode_tokens, cached_tokens, running_requests, waiting_requests
        FROM step
        WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND abs(seq - $seq) < 300 AND dumped
        ORDER BY abs(seq - $seq), seq
        LIMIT 1
    )
) AS near_batch
ORDER BY dumped, seq DESC;
