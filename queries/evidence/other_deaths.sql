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
-- column reason: where a collective failed, why, as its library states just before; NULL where it states nothing
-- column reason_seq: the row that states it
-- column reason_line: its line
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
,

stated AS (SELECT stream, worker, incarnation, seq, line, detail FROM fault WHERE code = 'collective_failed')

SELECT
    near_death.stream, near_death.seq, near_death.line, ts, ts_quality, node, near_death.worker, near_death.incarnation,
    rank, rank_name, device_id, 'death' AS what,
    CAST(NULL AS VARCHAR) AS resource, 'engine' AS api, code AS name,
    near_death.detail AS message, TRUE AS fatal, CAST(NULL AS VARCHAR) AS stack_id, FALSE AS soft, 0 AS episode,
    stated.detail AS reason, stated.seq AS reason_seq, stated.line AS reason_line
FROM near_death
ASOF LEFT JOIN stated
    ON near_death.stream = stated.stream AND near_death.worker = stated.worker
    AND near_death.incarnation = stated.incarnation AND regexp_matches(near_death.detail, '(?i)\b[nr]ccl')
    AND near_death.seq >= stated.seq
WHERE place = 1
ORDER BY near_death.stream, near_death.seq;
