-- Who watched for kills for memory as a worker's process went, and saw none; a log may call the same life otherwise
-- params: worker, ts
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column name: kernel_log, or kill_count: the cgroup's or the host's count of processes killed for memory
-- column detail: what was looked at, and for whom
SELECT stream, seq, line, name, detail
FROM collector
WHERE worker = $worker AND name IN ('kernel_log', 'kill_count') AND state = 'ok' AND abs(epoch(ts - $ts)) < 60
QUALIFY row_number() OVER (PARTITION BY name ORDER BY abs(epoch(ts - $ts)), seq) = 1
ORDER BY name
LIMIT 4;
