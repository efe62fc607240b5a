-- The host's memory and the cgroup's limit, as reports and telemetry in the same source tell them
-- params: stream
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column total_bytes: physical memory
-- column free_bytes: available
-- column cgroup_current_bytes: in use by the cgroup
-- column cgroup_limit_bytes: its limit
-- column fell_bytes: by how much the memory in use fell until the next report of the same kind
SELECT stream, seq, line, total_bytes, free_bytes, cgroup_current_bytes, cgroup_limit_bytes,
    lead(free_bytes) OVER (PARTITION BY total_bytes ORDER BY seq) - free_bytes AS fell_bytes
FROM host
WHERE stream = $stream
    AND (total_bytes IS NOT NULL OR free_bytes IS NOT NULL OR cgroup_limit_bytes IS NOT NULL)
ORDER BY seq
LIMIT 4096;
