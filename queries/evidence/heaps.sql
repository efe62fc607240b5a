-- The allocator snapshots that were read: each device's counters at the snapshot, and its newest failed allocation
-- column stream: source of the row
-- column seq: place in the stream of the counters
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column rank: global rank, where known
-- column device_id: device index as the process sees it
-- column allocated_bytes: in blocks that are in use
-- column active_bytes: the same with blocks that wait for a stream before they are free
-- column reserved_bytes: taken from the driver
-- column largest_free_block_bytes: largest free block of any pool
-- column oom_n: position of the failed allocation in the device's history; NULL where it has none
-- column oom_bytes: its size, rounded to 512
-- column device_free_bytes: free on the device then
-- column cuda_stream: for which stream it was
-- column pool_id: for which pool, where the history tells it
-- column stack_id: where it was made, in kind stack
WITH failed AS (
    SELECT stream, device_id, n, size_bytes, device_free_bytes, cuda_stream, pool_id, stack_id
    FROM alloc
    WHERE action = 'oom' AND size_bytes > 0
    QUALIFY row_number() OVER (PARTITION BY stream, device_id ORDER BY n DESC) = 1
)

SELECT allocator.stream, allocator.seq, allocator.line, allocator.rank, allocator.device_id, allocator.allocated_bytes,
    allocator.active_bytes, allocator.reserved_bytes, allocator.largest_free_block_bytes, failed.n AS oom_n,
    failed.size_bytes AS oom_bytes, failed.device_free_bytes, failed.cuda_stream, failed.pool_id, failed.stack_id
FROM allocator
LEFT JOIN failed ON failed.stream = allocator.stream AND failed.device_id = allocator.device_id
WHERE allocator.source = 'snapshot'
ORDER BY allocator.stream, allocator.seq;
