-- The text of lines that rows cite
-- params: stream, lines
-- column stream: source of the row
-- column line: 1-based line of the source
-- column log_file: file it stands in
-- column file_line: its line there, where the source is made of several files
-- column text: as it stands in the file, redacted
SELECT DISTINCT stream, line, log_file, file_line, text
FROM (SELECT stream, line, log.file AS log_file, log.file_line, log.text AS text FROM log)
WHERE stream = $stream AND line IN (SELECT unnest(CAST($lines AS BIGINT[])))
ORDER BY stream, line, text;
