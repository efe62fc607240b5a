-- What a fleet's recorders lost, by worker and reason
-- portable
-- needs loss.reason or collector.name: a recording
-- column worker: engine instance
-- column node: host, where known
-- column reason: why
-- column times: how often
-- column lost: rows or records in all
-- column first_ts: when first, in UTC
-- column last_ts: when last
SELECT
    worker, node, reason, COUNT(*) AS times, SUM(count) AS lost, MIN(ts) AS first_ts, MAX(ts) AS last_ts
FROM loss
GROUP BY worker, node, reason
ORDER BY lost DESC NULLS LAST, worker NULLS LAST, node NULLS LAST, reason;
