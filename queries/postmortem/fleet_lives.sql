-- Lives of a fleet's workers: how many, how far each came, and how it ended
-- portable
-- needs lifecycle.phase: the agent, the recorder, or an engine log
-- column worker: engine instance
-- column incarnation: which life
-- column life_number: counted from 1 for each worker, by time, else by order of appearance
-- column first_ts: when it began, in UTC; NULL where the source tells no time
-- column last_ts: its last phase
-- column was_ready: 1 where it ever could serve, else 0
-- column served: 1 where it served, else 0
-- column killed: 1 where it was killed, else 0
-- column draining: 1 where it was told to end, else 0
-- column phases: how many it told
WITH told AS (
    SELECT
        worker, incarnation, MIN(ts) AS first_ts, MAX(ts) AS last_ts, MIN(seq) AS first_seq,
        MAX(CASE WHEN phase IN ('ready', 'serving') THEN 1 ELSE 0 END) AS was_ready,
        MAX(CASE WHEN phase = 'serving' THEN 1 ELSE 0 END) AS served,
        MAX(CASE WHEN phase = 'killed' THEN 1 ELSE 0 END) AS killed,
        MAX(CASE WHEN phase IN ('draining', 'stopped') THEN 1 ELSE 0 END) AS draining, COUNT(*) AS phases
    FROM lifecycle
    GROUP BY worker, incarnation
)

SELECT
    worker, incarnation,
    ROW_NUMBER() OVER (PARTITION BY worker ORDER BY first_ts NULLS LAST, first_seq, incarnation) AS life_number,
    first_ts, last_ts, was_ready, served, killed, draining, phases
FROM told
ORDER BY worker NULLS LAST, life_number;
