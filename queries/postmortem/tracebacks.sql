-- The innermost frames of each failure's traceback, at most 8 of each, and the phase that they tell
-- needs stack.function: the agent, or a log with tracebacks
-- column stream: source of the row
-- column seq: place in the stream of the failure
-- column worker: engine instance
-- column rank_name: rank or process as printed
-- column failure: error type, gate or fault
-- column from_inside: 0 is the innermost frame
-- column function: as printed
-- column file: as printed
-- column file_line: line in that file
-- column code: source line, where printed
-- column tells: phase and part that such a frame tells; NULL where it tells none
WITH frame AS (
    SELECT
        failure.stream, failure.seq, failure.worker, failure.rank_name, failure.name AS failure, stack.function, stack.file,
        stack.stack_line, stack.code,
        row_number() OVER (PARTITION BY failure.stream, failure.seq ORDER BY stack.depth DESC, stack.seq DESC) - 1
            AS from_inside
    FROM failure
    INNER JOIN stack ON stack.stream = failure.stream AND stack.stack_id = failure.stack_id
    QUALIFY from_inside < 8
)

SELECT
    stream, seq, worker, rank_name, failure, from_inside, function, file, stack_line AS file_line, code,
    (
        SELECT arg_max(concat(phase, ': ', part), (weight, phase, part))
        FROM phase_marker AS marker
        WHERE regexp_full_match(frame.function, marker.function_pattern)
            AND (marker.file_pattern IS NULL OR regexp_matches(frame.file, marker.file_pattern))
            AND (marker.code_pattern IS NULL OR regexp_matches(coalesce(frame.code, ''), marker.code_pattern))
    ) AS tells
FROM frame
ORDER BY stream, seq, from_inside;
