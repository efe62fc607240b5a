-- Lives of a worker that were ordered to end before anything had failed: what follows in them is their shutdown
-- column stream: source of the row
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column seq: of the first order to end
CREATE VIEW drained AS
WITH trouble AS (
    SELECT stream, worker, incarnation, min(seq) AS seq
    FROM (
        SELECT stream, worker, incarnation, seq FROM oom WHERE coalesce(fatal, TRUE)
        UNION ALL
        SELECT stream, worker, incarnation, seq FROM lifecycle WHERE phase = 'killed'
        UNION ALL
        SELECT stream, worker, incarnation, seq FROM fault WHERE fatal AND code <> 'exception'
    )
    GROUP BY ALL
)

SELECT lifecycle.stream, lifecycle.worker, lifecycle.incarnation, min(lifecycle.seq) AS seq
FROM lifecycle
LEFT JOIN trouble USING (stream, worker, incarnation)
WHERE lifecycle.phase = 'draining' AND coalesce(lifecycle.seq < trouble.seq, TRUE)
GROUP BY ALL;
