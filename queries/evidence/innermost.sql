-- The innermost frame of a traceback, with its source where that was printed
-- params: stream, stack_id
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column file: source file as printed
-- column function: as printed
-- column code: source line, where printed
SELECT stack.stream, stack.seq, stack.line, stack.file, stack.function, stack.code
FROM stack
WHERE stack.stream = $stream AND stack.stack_id = $stack_id
ORDER BY stack.depth DESC, stack.seq
LIMIT 1;
