-- The figures of one refusal
-- params: stream, seq
-- column needed_bytes: what the gate asked for
SELECT stream, seq, line, gate, resource, needed_bytes, available_bytes, total_bytes, needed_tokens, available_tokens,
    resolution_bytes, message
FROM refusal
WHERE stream = $stream AND seq = $seq;
