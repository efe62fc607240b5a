-- Processes other than the failing one that were seen to hold device memory
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column pid: process id, usually the host's
-- column name: as reported
-- column used_bytes: what the process held
-- column own: FALSE where it is known to be another process; NULL where not told
-- column engine_like: reported after the failure, and its name is that of an inference engine
SELECT process.stream, process.seq, process.line, process.pid, process.name, process.used_bytes, process.own,
    process.name IS NOT NULL AND regexp_matches(process.name, '(?i)vllm|sglang|enginecore|tritonserver|trtllm|lmdeploy')
    AND process.seq > $seq AS engine_like
FROM process
WHERE process.stream = $stream AND coalesce(process.own, FALSE) = FALSE
    AND (process.worker = $worker OR process.seq > $seq)
    AND process.incarnation = $incarnation
ORDER BY process.used_bytes DESC NULLS LAST, process.seq
LIMIT 64;
