-- Who held the allocator's memory at the snapshot: bytes in use by the innermost frames that allocated them, at most 50
-- needs block.state: an allocator snapshot
-- column stream: the snapshot
-- column device_id: device index as the process sees it
-- column function: innermost function outside torch, else the innermost; NULL where no stack was recorded
-- column file: its file
-- column file_line: line in that file
-- column blocks: in use
-- column bytes: in them
-- column share_ratio: of all that is in use on that device, 0 to 1
-- column largest_bytes: the largest of them
-- column pools: pools that they lie in
WITH frame AS (
    SELECT
        stream, stack_id,
        arg_max(struct_pack(file := file, function := function, file_line := stack_line), (
            NOT coalesce(regexp_matches(file, '(^|/)torch/|\.(cpp|cc|cu|h)$|^\?\?'), TRUE), depth
        )) AS innermost
    FROM stack
    GROUP BY stream, stack_id
),

used AS (
    SELECT block.stream, block.device_id, frame.innermost, block.size_bytes, segment.pool_id
    FROM block
    LEFT JOIN frame ON frame.stream = block.stream AND frame.stack_id = block.stack_id
    LEFT JOIN segment
        ON segment.stream = block.stream AND segment.snapshot_id = block.snapshot_id
        AND segment.device_id IS NOT DISTINCT FROM block.device_id AND segment.address = block.segment_address
    WHERE block.state = 'active_allocated'
)

SELECT
    stream, device_id, innermost.function AS function, innermost.file AS file, innermost.file_line AS file_line,
    count(*) AS blocks, CAST(sum(size_bytes) AS BIGINT) AS bytes,
    round(sum(size_bytes) / sum(sum(size_bytes)) OVER (PARTITION BY stream, device_id), 4) AS share_ratio,
    max(size_bytes) AS largest_bytes, string_agg(DISTINCT pool_id, ' ' ORDER BY pool_id) AS pools
FROM used
GROUP BY stream, device_id, innermost
ORDER BY stream, device_id, bytes DESC, file, file_line
LIMIT 50;
