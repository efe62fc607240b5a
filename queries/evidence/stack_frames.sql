-- Every frame of a stack, innermost first
-- params: stream, stack_id
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column depth: 0 is the outermost frame
-- column file: source file as printed
-- column stack_line: line in that file
-- column function: as printed
SELECT stack.stream, stack.seq, stack.line, stack.depth, stack.file, stack.stack_line, stack.function
FROM stack
WHERE stack.stream = $stream AND stack.stack_id = $stack_id
ORDER BY depth DESC, seq;
