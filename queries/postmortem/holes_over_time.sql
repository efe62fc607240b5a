-- Holes of the allocator and its largest free block over time
-- needs allocator.inactive_split_bytes or allocator.largest_free_block_bytes or block.size_bytes: the agent, or an allocator snapshot
-- column stream: source of the row, or of the snapshot
-- column seq: its place in the stream; of a snapshot, the last block's
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column rank: global rank, where known
-- column device_id: device index as the process sees it
-- column unallocated_bytes: reserved less allocated
-- column holes_bytes: free blocks between blocks in use, which cannot be given back (inactive splits)
-- column holes: how many; NULL where only a counter was read
-- column largest_free_bytes: the largest free block
-- column fragmented_ratio: 1 less the largest free block's share of all that is unallocated; 0 is one piece
WITH reading AS (
    SELECT
        stream, seq, ts, worker, rank, device_id, reserved_bytes - allocated_bytes AS unallocated_bytes,
        inactive_split_bytes AS holes_bytes, CAST(NULL AS BIGINT) AS holes, largest_free_block_bytes AS largest_free_bytes
    FROM allocator
    WHERE inactive_split_bytes IS NOT NULL OR largest_free_block_bytes IS NOT NULL
    UNION ALL
    SELECT
        block.stream, max(block.seq), min(block.ts), any_value(block.worker), any_value(block.rank), block.device_id,
        CAST(sum(block.size_bytes) FILTER (block.state <> 'active_allocated') AS BIGINT),
        CAST(sum(block.size_bytes) FILTER (block.state = 'inactive' AND block.size_bytes < segment.total_bytes) AS BIGINT),
        count(*) FILTER (block.state = 'inactive' AND block.size_bytes < segment.total_bytes),
        max(block.size_bytes) FILTER (block.state = 'inactive')
    FROM block
    LEFT JOIN segment
        ON segment.stream = block.stream AND segment.snapshot_id = block.snapshot_id
        AND segment.device_id IS NOT DISTINCT FROM block.device_id AND segment.address = block.segment_address
    GROUP BY block.stream, block.snapshot_id, block.device_id
)

SELECT
    *, round(1 - largest_free_bytes / nullif(unallocated_bytes, 0), 4) AS fragmented_ratio
FROM reading
ORDER BY worker, device_id, ts NULLS LAST, stream, seq;
