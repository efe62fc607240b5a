-- The requests of the failing batch, as the engine dumped them, the largest first
-- params: stream, worker, incarnation, seq
-- column scheduled_tokens: tokens that the batch was to compute for it
SELECT stream, seq, line, request_id, event, prompt_tokens, computed_tokens, scheduled_tokens, output_tokens
FROM request
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq > $seq AND sampled_by = 'scheduler_dump'
ORDER BY scheduled_tokens DESC NULLS LAST, seq
LIMIT 64;
