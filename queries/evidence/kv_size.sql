-- What is known of the KV pool's size before an instant, the last first
-- params: stream, worker, incarnation, seq
-- column total_tokens: size in tokens
SELECT stream, seq, line, total_tokens, total_blocks, max_concurrency
FROM kv_pool
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
    AND (total_tokens IS NOT NULL OR total_blocks IS NOT NULL)
ORDER BY seq DESC
LIMIT 8;
