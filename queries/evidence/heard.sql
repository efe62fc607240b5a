-- Other ranks of a worker that wrote as one of them gave up waiting: about that time, or near by where no time is told
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: of the first such line
-- column line: of that line
-- column name: the worker's process and pid, or the rank, as printed
WITH written AS (
    SELECT stream, seq, line, ts, worker, incarnation,
        regexp_extract(text, '\(\w*Worker\w*(?: rank=\d{1,5})? pid=\d{1,10}|\[rank\d{1,5}\]| TP\d{1,4}\b') AS name
    FROM log
    WHERE stream = $stream AND abs(seq - $seq) < 200
),

giving_up AS (
    SELECT ts, name
    FROM written
    WHERE seq <= $seq
    QUALIFY row_number() OVER (ORDER BY seq DESC) = 1
)

SELECT written.stream, min(written.seq) AS seq, min(written.line) AS line, written.name
FROM written
CROSS JOIN giving_up
WHERE written.worker = $worker AND written.incarnation = $incarnation AND written.name NOT IN ('', giving_up.name)
    AND CASE
        WHEN written.ts IS NOT NULL AND giving_up.ts IS NOT NULL THEN abs(epoch(written.ts) - epoch(giving_up.ts)) < 90
        ELSE abs(written.seq - $seq) < 40
    END
GROUP BY ALL
ORDER BY seq
LIMIT 16;
