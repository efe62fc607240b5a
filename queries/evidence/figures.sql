-- The figures of one out-of-memory row, corrected and derived
-- params: stream, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column api: who reported it: torch, cuda, kernel, engine, system, ...
-- column error_type: exception type, or the event
-- column message: as printed, redacted
-- column requested_bytes: asked for
-- column total_bytes: size of the device
-- column free_bytes: free on the device
-- column own_process_bytes: this process, as the driver counts it
-- column others_bytes: everybody else on the device
-- column other_processes_bytes: the processes that the message names
-- column allocated_bytes: allocated by the framework, as printed
-- column allocated_true_bytes: the same less the free blocks of private pools
-- column cached_free_bytes: reserved but unallocated outside private pools
-- column private_free_bytes: free blocks cached in private pools (CUDA graphs)
-- column framework_bytes: all that the framework has reserved
-- column non_framework_bytes: own process less framework
-- column limit_bytes: limit set by a memory fraction, where there is one
-- column ceiling_bytes: that limit, else the device's size
-- column resolution_bytes: print resolution of the least exact of requested and free
-- column requested_tokens: KV tokens asked for
-- column available_tokens: KV tokens free
-- column requests: requests preempted, retracted or dropped
-- column short_bytes: requested less what was free below the ceiling; NULL where that was enough
SELECT
    stream, seq, line, api, error_type, message, requested_bytes, total_bytes, free_bytes, own_process_bytes, others_bytes,
    other_processes_bytes, allocated_bytes, allocated_true_bytes, cached_free_bytes, private_free_bytes, framework_bytes,
    non_framework_bytes, limit_bytes, ceiling_bytes, resolution_bytes, requested_tokens, available_tokens, requests, short_bytes
FROM oom_figures
WHERE stream = $stream AND seq = $seq
ORDER BY seq;
