-- Other processes of a worker that wrote as one of them gave up waiting
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: of the first such line
-- column line: of that line
-- column name: process and pid, or rank, as printed
WITH giving_up AS (
    SELECT seq, regexp_extract(text, '(?:pid=\d{1,10}|\[rank\d{1,5}\])') AS name
    FROM log
    WHERE stream = $stream AND seq <= $seq
    QUALIFY row_number() OVER (ORDER BY seq DESC) = 1
)

SELECT log.stream, min(log.seq) AS seq, min(log.line) AS line, regexp_extract(log.text, '(?:pid=\d{1,10}|\[rank\d{1,5}\])') AS name
FROM log
WHERE log.stream = $stream AND log.worker = $worker AND log.incarnation = $incarnation
    AND abs(log.seq - $seq) < 200
GROUP BY ALL
HAVING name <> '' AND name NOT IN (SELECT giving_up.name FROM giving_up)
ORDER BY seq
LIMIT 16;
