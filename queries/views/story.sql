-- The order in which the live streams of one worker (rings, the recorder, samplers) tell its story: each row's place
-- column stream: source of the row
-- column seq: its place in the stream
-- column story: the worker, whose streams are one story
-- column place: its place in the story: by time, but within a stream always in the order of seq, whatever its clock did
-- column step_place: of a step, and of the pool figures written with it: the step's place; NULL for other kinds
CREATE VIEW story AS
WITH live AS (
    SELECT
        stream, seq, worker, kind,
        max(ts) OVER (PARTITION BY stream ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS moment
    FROM events
    WHERE worker IS NOT NULL AND source NOT IN ('log', 'snapshot', 'trace', 'replay')
        -- What triage does not ask about need not even be loaded for it: places are counted without it.
        AND kind NOT IN ('adapter', 'graph', 'kv_block', 'loss', 'metric', 'transfer')
        AND (kind <> 'request' OR request.sampled_by IN ('scheduler_dump', 'oom'))
),

placed AS (
    SELECT *, row_number() OVER (PARTITION BY worker ORDER BY moment NULLS FIRST, stream, seq) AS place
    FROM live
)

SELECT
    stream, seq, worker AS story, place,
    CASE WHEN kind IN ('step', 'kv_pool') THEN
        max(CASE WHEN kind = 'step' THEN place END) OVER (
            PARTITION BY stream ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
    END AS step_place
FROM placed;
