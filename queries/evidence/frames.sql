-- The frames of a traceback that tell the phase, innermost first, each with what it tells
-- params: stream, stack_id
-- column phase: recovery, warm_up, load_time or serving
-- column part: what exactly was done there
SELECT stack.stream, stack.seq, stack.line, stack.depth, stack.file, stack.stack_line, stack.function, stack.code,
    marker.phase, marker.part, marker.weight
FROM stack
INNER JOIN phase_marker AS marker
    ON regexp_full_match(stack.function, marker.function_pattern)
    AND (marker.file_pattern IS NULL OR regexp_matches(stack.file, marker.file_pattern))
WHERE stack.stream = $stream AND stack.stack_id = $stack_id
ORDER BY stack.depth DESC, marker.weight DESC;
