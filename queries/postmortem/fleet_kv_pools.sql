-- KV pools of a fleet: how full each got, and what it cost
-- portable
-- needs kv_pool.usage_ratio or kv_pool.total_blocks or kv_pool.total_tokens: the agent, prometheus, or an engine log
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column tier: device, host, disk or remote; NULL where not told
-- column reports: how many
-- column total_blocks: the pool's size in blocks
-- column total_tokens: and in tokens
-- column peak_ratio: the highest used share, 0 to 1
-- column full_reports: reports with 95% used or more
-- column full_ratio: their share of those that tell a usage
-- column least_free_blocks: the fewest free blocks
-- column preempted_requests: preempted so far, at the last report
WITH told AS (
    SELECT
        worker, incarnation, tier, COUNT(*) AS reports, MAX(total_blocks) AS total_blocks, MAX(total_tokens) AS total_tokens,
        MAX(usage_ratio) AS peak_ratio, SUM(CASE WHEN usage_ratio >= 0.95 THEN 1 ELSE 0 END) AS full_reports,
        COUNT(usage_ratio) AS usage_reports, MIN(free_blocks) AS least_free_blocks,
        MAX(preempted_requests) AS preempted_requests
    FROM kv_pool
    GROUP BY worker, incarnation, tier
)

SELECT
    worker, incarnation, tier, reports, total_blocks, total_tokens, ROUND(peak_ratio, 4) AS peak_ratio, full_reports,
    ROUND(1.0 * full_reports / NULLIF(usage_reports, 0), 4) AS full_ratio, least_free_blocks, preempted_requests
FROM told
ORDER BY full_reports DESC NULLS LAST, worker NULLS LAST, incarnation NULLS LAST, tier NULLS LAST;
