-- What became of a worker after an instant: signs that it went on, and that it died
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column went_on: TRUE for progress, FALSE for the end
-- column what: throughput, batch, answer, answered, a phase, or a fault's code
SELECT stream, seq, line, went_on, what
FROM (
    SELECT stream, seq, line, worker, incarnation, TRUE AS went_on, 'throughput' AS what
    FROM throughput
    WHERE coalesce(generation_tokens_per_s, 0) > 0 OR coalesce(prompt_tokens_per_s, 0) > 0
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, TRUE, 'batch' FROM step WHERE NOT coalesce(dumped, FALSE)
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, TRUE, phase FROM lifecycle
    WHERE phase IN ('ready', 'serving', 'weights_loaded', 'kv_allocated', 'capturing', 'compiling', 'reloading')
        AND coalesce(detail, '') NOT LIKE 'a request was answered%'
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, TRUE, 'answer' FROM lifecycle
    WHERE detail = 'a request was answered after a failure'
    UNION ALL
    -- With an error: whoever computed it may be gone, the server is not.
    SELECT stream, seq, line, worker, incarnation, TRUE, 'answered' FROM lifecycle
    WHERE detail = 'a request was answered with an error'
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, phase FROM lifecycle WHERE phase IN ('stopped', 'killed')
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, FALSE, code FROM fault WHERE fatal
) AS sign
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation
    AND seq > $seq
ORDER BY seq
LIMIT 40;
