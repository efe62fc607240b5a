-- Allocated against reserved against free on the device, each allocator's reading beside the driver's last one
-- needs allocator.reserved_bytes: the agent, or an allocator snapshot
-- column stream: source of the allocator's row
-- column seq: its place in the stream
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column device_id: device index as the process sees it
-- column allocated_bytes: of tensors
-- column reserved_bytes: that the framework took from the device
-- column unallocated_bytes: reserved less allocated: cached, whole or in holes
-- column device_total_bytes: physical size
-- column device_free_bytes: free on the device
-- column outside_bytes: used on the device less reserved: contexts, libraries, graphs, and every other process
-- column device_age_s: seconds from the driver's reading to the allocator's; below 0 where one process read both, this first
SELECT
    allocator.stream, allocator.seq, allocator.ts, allocator.worker, allocator.incarnation, allocator.rank,
    allocator.device_id, allocator.allocated_bytes, allocator.reserved_bytes,
    allocator.reserved_bytes - allocator.allocated_bytes AS unallocated_bytes,
    driver.total_bytes AS device_total_bytes, driver.free_bytes AS device_free_bytes,
    driver.used_bytes - allocator.reserved_bytes AS outside_bytes,
    date_diff('microsecond', driver.ts, allocator.ts) / 1e6 AS device_age_s
FROM allocator
ASOF LEFT JOIN (
    SELECT
        ts, worker, device_id, total_bytes, free_bytes, coalesce(used_bytes, total_bytes - free_bytes) AS used_bytes,
        -- The agent asks the allocator first, and the driver at once behind it.
        ts - CASE WHEN source = 'agent' THEN INTERVAL 1 SECOND ELSE INTERVAL 0 SECONDS END AS from_ts
    FROM device
    WHERE free_bytes IS NOT NULL AND ts IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY worker, device_id, from_ts ORDER BY source = 'nvml' DESC, stream, seq DESC) = 1
) AS driver
    ON driver.worker = allocator.worker AND driver.device_id = allocator.device_id AND allocator.ts >= driver.from_ts
WHERE allocator.reserved_bytes IS NOT NULL
ORDER BY allocator.worker, allocator.device_id, allocator.ts NULLS LAST, allocator.stream, allocator.seq;
