-- What each source says of itself: the ranks that write it, and which engine and model it started, if it did
-- column stream: source of the row
-- column seq: of the first row that says so
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column worker: engine instance
-- column what: rank, start, engine or model
-- column name: the rank (global where known, else as printed), the engine's or the model's name; NULL for a start
WITH said AS (
    SELECT stream, seq, line, worker, 'rank' AS what, coalesce(CAST(rank AS VARCHAR), rank_name) AS name
    FROM events
    WHERE kind NOT IN ('log', 'adapter', 'graph', 'kv_block', 'loss', 'metric', 'request', 'transfer')
        AND (rank IS NOT NULL OR regexp_matches(rank_name, '(DP|TP|PP|EP|CP)\d'))
    UNION ALL
    SELECT stream, seq, line, worker, 'start', NULL FROM lifecycle WHERE phase = 'spawned'
    UNION ALL
    SELECT stream, seq, line, worker, key, value
    FROM (SELECT stream, seq, line, worker, CASE WHEN section = 'engine' THEN 'engine' ELSE key END AS key, value
        FROM manifest
        WHERE (section = 'engine' AND key = 'name') OR key IN ('model', 'model_path'))
)

SELECT stream, min(seq) AS seq, min(line) AS line, worker, replace(what, 'model_path', 'model') AS what, name
FROM said
GROUP BY ALL
ORDER BY stream, seq, what, name;
