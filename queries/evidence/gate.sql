-- The figures of one refusal
-- params: stream, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column gate: which: start_memory, kv_fits_request, kv_blocks, ...
-- column resource: of what
-- column needed_bytes: what the gate asked for
-- column available_bytes: what was there
-- column total_bytes: size of the device
-- column needed_tokens: what the gate asked for
-- column available_tokens: what was there
-- column resolution_bytes: print resolution of the byte figures
-- column message: as printed, redacted
SELECT stream, seq, line, gate, resource, needed_bytes, available_bytes, total_bytes, needed_tokens, available_tokens,
    resolution_bytes, message
FROM refusal
WHERE stream = $stream AND seq = $seq
ORDER BY seq;
