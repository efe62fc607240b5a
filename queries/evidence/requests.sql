-- The requests of the failing batch, as the engine dumped them, the largest first
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column request_id: as the engine names it
-- column event: what happened to it
-- column prompt_tokens: prompt length
-- column computed_tokens: computed before this batch
-- column scheduled_tokens: tokens that the batch was to compute for it
-- column output_tokens: generated so far
SELECT stream, seq, line, request_id, event, prompt_tokens, computed_tokens, scheduled_tokens, output_tokens
FROM request
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq > $seq AND sampled_by IN ('scheduler_dump', 'oom')
ORDER BY scheduled_tokens DESC NULLS LAST, seq
LIMIT 64;
