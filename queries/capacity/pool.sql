-- How large the KV pools were that were recorded, each start of a worker once, the last first
-- column stream: source of the row
-- column seq: the place in the stream of the last row that tells it
-- column worker: engine instance
-- column incarnation: start of it
-- column block_tokens: tokens of a block
-- column total_blocks: size in blocks, of the rank with the fewest
-- column total_tokens: size in tokens, of the rank with the fewest
-- column bytes_per_block: bytes of a block over all layers of a rank
SELECT
  stream,
  max(seq) AS seq,
  worker,
  incarnation,
  max(block_size_tokens) AS block_tokens,
  min(total_blocks) AS total_blocks,
  min(total_tokens) AS total_tokens,
  max(bytes_per_block) AS bytes_per_block
FROM kv_pool
WHERE (total_blocks > 0 OR total_tokens > 0) AND coalesce(tier, 'device') IN ('device', 'host')
GROUP BY stream, worker, incarnation
ORDER BY stream, seq DESC;
