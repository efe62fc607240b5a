-- The batches nearest to an instant: those that ran before it, and the dump that the engine prints after it
-- params: stream, worker, incarnation, seq
-- column dumped: printed by the engine because of the failure, so it is the failing batch itself
-- column prefill_tokens: scheduled prompt tokens
(
    SELECT stream, seq, line, FALSE AS dumped, mode, prefill_tokens, decode_tokens, cached_tokens, running_requests,
        waiting_requests
    FROM step
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq AND NOT coalesce(dumped, FALSE)
    ORDER BY seq DESC
    LIMIT 40
)
UNION ALL
(
    SELECT stream, seq, line, TRUE, mode, prefill_tokens, decode_tokens, cached_tokens, running_requests, waiting_requests
    FROM step
    WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq > $seq AND dumped
    ORDER BY seq
    LIMIT 1
);
