-- Out-of-memory events of a fleet: by worker, resource and error, how often, and how often it died
-- portable
-- needs oom.resource: the agent, host, an engine log, or an allocator snapshot
-- column worker: engine instance
-- column node: host, where known
-- column resource: device, kv_blocks, host, slots or driver
-- column error: error type, else who reported it
-- column events: how many
-- column died: of these fatal
-- column survived: of these told not to be fatal
-- column lives: lives of the worker with such an event
-- column requests: preempted, retracted or failed in them; NULL where not told
-- column largest_requested_bytes: the most that was asked for; NULL where not told
-- column least_free_bytes: the least that was free; NULL where not told
SELECT
    worker, node, resource, COALESCE(error_type, api) AS error, COUNT(*) AS events,
    SUM(CASE WHEN fatal THEN 1 ELSE 0 END) AS died, SUM(CASE WHEN NOT fatal THEN 1 ELSE 0 END) AS survived,
    COUNT(DISTINCT incarnation) AS lives, SUM(requests) AS requests, MAX(requested_bytes) AS largest_requested_bytes,
    MIN(free_bytes) AS least_free_bytes
FROM oom
GROUP BY worker, node, resource, COALESCE(error_type, api)
ORDER BY events DESC, worker NULLS LAST, node NULLS LAST, resource, error NULLS LAST;
