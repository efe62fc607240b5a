-- Process ids that write lines of the same incarnation: other stages or ranks of the same worker, not somebody else
-- params: stream, worker, incarnation
-- column stream: of the first line that it wrote
-- column seq: of that line
-- column line: of that line
-- column pid: as printed in the line's process prefix
-- column stage: number of the pipeline's stage that the process is named after; NULL where it is none
SELECT stream, min(seq) AS seq, min(line) AS line, TRY_CAST(regexp_extract(log.text, '(?:pid=|server process \[)(\d{1,10})[)\]]', 1) AS BIGINT) AS pid,
    TRY_CAST(regexp_extract(log.text, '(?i)\(\w*stage[-_]?(\d{1,4})\w*(?: rank=\d+)? pid=', 1) AS INTEGER) AS stage
FROM log
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND (log.text LIKE '%pid=%' OR log.text LIKE '%server process [%')
GROUP BY ALL
HAVING pid IS NOT NULL
ORDER BY seq
LIMIT 256;
