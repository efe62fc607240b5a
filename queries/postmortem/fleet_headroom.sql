-- Headroom of a fleet's devices: the least that was ever free on each
-- portable
-- needs device.free_bytes: nvml, the agent, or an engine log
-- column worker: engine instance
-- column node: host, where known
-- column device_id: device index as the process sees it
-- column readings: how many
-- column total_bytes: physical size
-- column least_free_bytes: the least that was free
-- column least_free_ratio: of the size, 0 to 1
-- column tight_readings: readings with less than 2% free
-- column first_tight_ts: the first of them, in UTC
WITH told AS (
    SELECT
        worker, node, device_id, COUNT(*) AS readings, MAX(device.total_bytes) AS total_bytes,
        MIN(free_bytes) AS least_free_bytes,
        SUM(CASE WHEN free_bytes < 0.02 * device.total_bytes THEN 1 ELSE 0 END) AS tight_readings,
        MIN(CASE WHEN free_bytes < 0.02 * device.total_bytes THEN ts END) AS first_tight_ts
    FROM device
    WHERE free_bytes IS NOT NULL
    GROUP BY worker, node, device_id
)

SELECT
    worker, node, device_id, readings, total_bytes, least_free_bytes,
    ROUND(1.0 * least_free_bytes / NULLIF(total_bytes, 0), 4) AS least_free_ratio, tight_readings, first_tight_ts
FROM told
ORDER BY least_free_ratio NULLS LAST, worker NULLS LAST, node NULLS LAST, device_id NULLS LAST;
