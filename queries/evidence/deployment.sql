-- What does the newest start of the first worker say of its engine, its arguments and its device? The last value of each key
-- column stream: source of the row
-- column seq: its place in the stream
-- column section: engine, argument, or device
-- column key: as the engine spells it; total_bytes of a device
-- column value: as printed
WITH start AS (
    -- A page of metrics tells arguments and no engine, of a life by another name than the log's.
    SELECT worker, coalesce(max(incarnation) FILTER (WHERE section = 'engine'), max(incarnation)) AS incarnation
    FROM manifest
    WHERE section IN ('engine', 'argument')
    GROUP BY worker
    ORDER BY min(stream), min(seq)
    LIMIT 1
),

said AS (
    SELECT stream, seq, worker, incarnation, section, key, value
    FROM manifest
    WHERE section IN ('engine', 'argument')

    UNION ALL

    SELECT stream, seq, worker, incarnation, 'device', 'total_bytes', CAST(total_bytes AS VARCHAR)
    FROM device
    WHERE total_bytes IS NOT NULL
)

SELECT stream, seq, section, key, value
FROM said
JOIN start USING (worker, incarnation)
QUALIFY row_number() OVER (PARTITION BY section, key ORDER BY stream DESC, seq DESC) = 1
ORDER BY section, key
