-- The figures of one out-of-memory row, corrected and derived
-- params: stream, seq
-- column short_bytes: requested less what was free
SELECT
    stream, seq, line, api, error_type, message, requested_bytes, total_bytes, free_bytes, own_process_bytes, others_bytes,
    other_processes_bytes, allocated_bytes, allocated_true_bytes, cached_free_bytes, private_free_bytes, framework_bytes,
    non_framework_bytes, limit_bytes, ceiling_bytes, resolution_bytes, requested_tokens, available_tokens, requests, short_bytes
FROM oom_figures
WHERE stream = $stream AND seq = $seq;
