-- What is known of the KV pool's size before an instant, the last first
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column total_tokens: size in tokens
-- column total_blocks: size in blocks
-- column max_concurrency: requests of the maximum length that fit, as printed
SELECT stream, seq, line, total_tokens, total_blocks, max_concurrency
FROM kv_pool
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    AND (total_tokens IS NOT NULL OR total_blocks IS NOT NULL)
ORDER BY seq DESC
LIMIT 8;
