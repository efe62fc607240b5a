-- The allocator's pools at the snapshot: segments, what is in use, and the holes between
-- needs segment.total_bytes: an allocator snapshot
-- column stream: the snapshot
-- column device_id: device index as the process sees it
-- column pool_id: pool; others than the default one belong to captured graphs
-- column cuda_stream: stream; a free block serves its own only
-- column size_class: small or large
-- column segments: taken from the device
-- column total_bytes: in them
-- column allocated_bytes: in use
-- column free_bytes: not in use
-- column whole_free_bytes: of these in segments without any block in use, which can be given back
-- column holes: free blocks beside blocks in use
-- column holes_bytes: in them
-- column largest_free_bytes: the largest free block
WITH inside AS (
    SELECT
        stream, snapshot_id, device_id, segment_address,
        CAST(sum(size_bytes) FILTER (state <> 'inactive') AS BIGINT) AS used_bytes,
        CAST(coalesce(sum(size_bytes) FILTER (state = 'inactive'), 0) AS BIGINT) AS free_bytes,
        count(*) FILTER (state = 'inactive') AS free_blocks,
        coalesce(max(size_bytes) FILTER (state = 'inactive'), 0) AS largest_bytes
    FROM block
    GROUP BY stream, snapshot_id, device_id, segment_address
)

SELECT
    segment.stream, segment.device_id, segment.pool_id, segment.cuda_stream, segment.size_class, count(*) AS segments,
    CAST(sum(segment.total_bytes) AS BIGINT) AS total_bytes, CAST(sum(segment.allocated_bytes) AS BIGINT) AS allocated_bytes,
    CAST(sum(inside.free_bytes) AS BIGINT) AS free_bytes,
    CAST(coalesce(sum(inside.free_bytes) FILTER (inside.used_bytes IS NULL), 0) AS BIGINT) AS whole_free_bytes,
    CAST(coalesce(sum(inside.free_blocks) FILTER (inside.used_bytes IS NOT NULL), 0) AS BIGINT) AS holes,
    CAST(coalesce(sum(inside.free_bytes) FILTER (inside.used_bytes IS NOT NULL), 0) AS BIGINT) AS holes_bytes,
    max(inside.largest_bytes) AS largest_free_bytes
FROM segment
LEFT JOIN inside
    ON inside.stream = segment.stream AND inside.snapshot_id = segment.snapshot_id
    AND inside.device_id IS NOT DISTINCT FROM segment.device_id AND inside.segment_address = segment.address
GROUP BY segment.stream, segment.device_id, segment.pool_id, segment.cuda_stream, segment.size_class
ORDER BY segment.stream, segment.device_id, total_bytes DESC, segment.pool_id, segment.cuda_stream, segment.size_class;
