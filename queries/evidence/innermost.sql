-- The innermost frame of a traceback, with its source where that was printed
-- params: stream, stack_id
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column file: source file as printed
-- column function: as printed
-- column code: source line, where printed
SELECT stream, seq, line, file, function, code
FROM stack
WHERE stream = $stream AND stack_id = $stack_id
QUALIFY row_number() OVER (ORDER BY depth DESC, seq) = 1
ORDER BY seq;
