-- The frames of a traceback that tell the phase, innermost first, each with what it tells
-- params: stream, stack_id
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column depth: 0 is the outermost frame
-- column file: source file as printed
-- column stack_line: line in that file
-- column function: as printed
-- column code: source line, where printed
-- column phase: recovery, warm_up, load_time, serving, or any: what is done whenever the model runs
-- column part: what exactly was done there
-- column weight: how much the frame convinces, 0 to 1
-- Tracebacks repeat each other, and each pattern is compiled for each frame that it is compared with.
WITH failed AS (
    SELECT stream, stack_id FROM oom
    UNION
    SELECT stream, stack_id FROM refusal
    UNION
    SELECT stream, stack_id FROM fault
),

told AS MATERIALIZED (
    SELECT frame.function, frame.file, frame.code, marker.phase, marker.part, marker.weight
    FROM (SELECT DISTINCT function, file, code FROM stack SEMI JOIN failed USING (stream, stack_id)) AS frame
    INNER JOIN phase_marker AS marker
        ON regexp_full_match(frame.function, marker.function_pattern)
        AND (marker.file_pattern IS NULL OR regexp_matches(frame.file, marker.file_pattern))
        AND (marker.code_pattern IS NULL OR regexp_matches(coalesce(frame.code, ''), marker.code_pattern))
)

SELECT stack.stream, stack.seq, stack.line, stack.depth, stack.file, stack.stack_line, stack.function, stack.code,
    told.phase, told.part, told.weight
FROM stack
INNER JOIN told
    ON told.function = stack.function AND told.file IS NOT DISTINCT FROM stack.file
    AND told.code IS NOT DISTINCT FROM stack.code
WHERE stack.stream = $stream AND stack.stack_id = $stack_id
ORDER BY depth DESC, weight DESC, phase, part, seq;
