-- The text of lines that rows cite
-- params: stream, lines
-- column text: as it stands in the file
SELECT DISTINCT stream, line, log_file, text
FROM (SELECT stream, line, log.file AS log_file, log.text AS text FROM log)
WHERE stream = $stream AND line IN (SELECT unnest(CAST($lines AS BIGINT[])));
