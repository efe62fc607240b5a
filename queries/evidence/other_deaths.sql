-- Engines that say they died, each with the exception nearest to that which may be the reason; memory is not asked about here
-- column stream: source of the row
-- column seq: its place in the stream; of the exception where there is one, else of the engine's word
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column ts_quality: how far ts is to be trusted
-- column node: host, where known
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column device_id: device index as the process sees it
-- column what: death
-- column resource: NULL
-- column api: engine
-- column name: exception where a reason was printed, else engine_dead
-- column message: the exception, else what the engine said; redacted
-- column fatal: TRUE
-- column stack_id: NULL
-- column soft: FALSE
-- column episode: 0
WITH dead AS (
    SELECT stream, worker, incarnation, min(seq) AS seq
    FROM fault
    WHERE code = 'engine_dead' AND NOT EXISTS (
        SELECT 1 FROM drained
        WHERE drained.stream = fault.stream AND drained.worker = fault.worker
            AND drained.incarnation = fault.incarnation AND drained.seq < fault.seq
    )
    GROUP BY ALL
),

near_death AS (
    SELECT
        fault.*,
        row_number() OVER (
            PARTITION BY fault.stream, fault.worker, fault.incarnation
            -- The first exception is the reason, later ones follow from it; without any, the engine's word is all there is.
            ORDER BY fault.code <> 'exception', fault.seq
        ) AS place
    FROM fault
    INNER JOIN dead USING (stream, worker, incarnation)
    WHERE fault.code IN ('exception', 'engine_dead') AND abs(fault.seq - dead.seq) < 300
)

SELECT
    stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id, 'death' AS what,
    CAST(NULL AS VARCHAR) AS resource, 'engine' AS api, code AS name, detail AS message, TRUE AS fatal,
    CAST(NULL AS VARCHAR) AS stack_id, FALSE AS soft, 0 AS episode
FROM near_death
WHERE place = 1
ORDER BY stream, seq;
