-- Every failure, refusal, kill and fault, and the lines around it that gave facts, in order
-- column stream: source of the row
-- column seq: place in the stream of the line's first row
-- column place: file:line, as `sed -n LINEp FILE` shows it
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank_name: rank or process as printed
-- column role: failure, pressure (blocks ran short, seen in the reports only), frame (of a traceback, and tells the phase), before, between or after
-- column gave: what the line gave: kinds of rows, or the phase and part that a frame tells
-- column text: the line as it stands, or the failure's message where the source has no lines
WITH fact AS (
    SELECT stream, line, row_number() OVER (PARTITION BY stream ORDER BY line) AS n
    FROM events
    WHERE line IS NOT NULL AND kind NOT IN ('log', 'stack', 'loss', 'collector')
    GROUP BY stream, line
),

failed AS (
    SELECT stream, seq, line, worker, incarnation, rank_name, 'failure' AS role, name, message, stack_id FROM failure
    UNION ALL
    SELECT stream, seq, line, worker, incarnation, rank_name, 'pressure', 'preemption', NULL, NULL FROM kv_pressure
),

near_line AS (
    SELECT
        fact.stream, fact.line,
        CASE
            WHEN bool_or(fact.line = hit.line AND hit.role = 'failure') THEN 'failure'
            WHEN bool_or(fact.line = hit.line) THEN 'pressure'
            WHEN bool_and(fact.n < hit.n) THEN 'before'
            WHEN bool_or(fact.n < hit.n) THEN 'between'
            ELSE 'after'
        END AS role
    FROM fact
    INNER JOIN (
        SELECT failed.stream, failed.line, failed.role, fact.n
        FROM failed
        INNER JOIN fact ON fact.stream = failed.stream AND fact.line = failed.line
    ) AS hit ON hit.stream = fact.stream AND fact.n BETWEEN hit.n - 8 AND hit.n + 4
    GROUP BY fact.stream, fact.line
),

around AS (
    SELECT
        near_line.stream, near_line.line, near_line.role,
        min(events.seq) AS seq,
        arg_min(events.worker, events.seq) AS worker,
        arg_min(events.incarnation, events.seq) AS incarnation,
        arg_min(events.rank_name, events.seq) AS rank_name,
        string_agg(DISTINCT events.kind, ', ' ORDER BY events.kind) AS gave
    FROM near_line
    INNER JOIN events ON events.stream = near_line.stream AND events.line = near_line.line
    WHERE events.kind NOT IN ('log', 'stack', 'loss', 'collector')
    GROUP BY near_line.stream, near_line.line, near_line.role
),

frame AS (
    SELECT
        stack.stream, stack.line,
        min(stack.seq) AS seq,
        arg_min(stack.worker, stack.seq) AS worker,
        arg_min(stack.incarnation, stack.seq) AS incarnation,
        arg_min(stack.rank_name, stack.seq) AS rank_name,
        string_agg(DISTINCT concat(marker.phase, ': ', marker.part), ', ' ORDER BY concat(marker.phase, ': ', marker.part)) AS gave,
        'frame' AS role
    FROM stack
    INNER JOIN phase_marker AS marker
        ON regexp_full_match(stack.function, marker.function_pattern)
        AND (marker.file_pattern IS NULL OR regexp_matches(stack.file, marker.file_pattern))
        AND (marker.code_pattern IS NULL OR regexp_matches(coalesce(stack.code, ''), marker.code_pattern))
    WHERE stack.line IS NOT NULL
        AND EXISTS (SELECT 1 FROM failed WHERE failed.stream = stack.stream AND failed.stack_id = stack.stack_id)
    GROUP BY stack.stream, stack.line
),

chosen AS (
    SELECT stream, line, seq, worker, incarnation, rank_name, role, gave, NULL AS message FROM around
    UNION ALL
    SELECT stream, line, seq, worker, incarnation, rank_name, role, gave, NULL FROM frame
    WHERE NOT EXISTS (SELECT 1 FROM around WHERE around.stream = frame.stream AND around.line = frame.line)
    UNION ALL
    SELECT stream, line, seq, worker, incarnation, rank_name, role, name, message FROM failed
    WHERE line IS NULL
),

kept AS (
    SELECT stream, line, file, text
    FROM (SELECT stream, line, seq, log.file AS file, log.text AS text FROM log)
    QUALIFY row_number() OVER (PARTITION BY stream, line ORDER BY seq) = 1
)

SELECT
    chosen.stream, chosen.seq,
    concat_ws(':', coalesce(kept.file, chosen.stream), chosen.line) AS place,
    chosen.worker, chosen.incarnation, chosen.rank_name, chosen.role, chosen.gave,
    coalesce(kept.text, chosen.message) AS text
FROM chosen
LEFT JOIN kept ON kept.stream = chosen.stream AND kept.line = chosen.line
ORDER BY chosen.stream, coalesce(chosen.line, chosen.seq), chosen.seq;
