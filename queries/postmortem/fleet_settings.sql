-- Versions and settings of a fleet: how many workers and lives run with which value
-- portable
-- needs manifest.key: the agent, prometheus, or an engine log
-- column section: model, engine, parallelism, format, argument, environment, ...
-- column key: as the engine spells it
-- column value: as printed
-- column workers: that told it
-- column lives: lives of workers that told it
-- column values_of_key: how many values of this key there are; more than 1 is a fleet that differs
WITH told AS (
    SELECT DISTINCT section, key, value, worker, incarnation FROM manifest
),

varied AS (
    SELECT section, key, COUNT(DISTINCT value) AS values_of_key FROM told GROUP BY section, key
)

SELECT
    told.section, told.key, told.value, COUNT(DISTINCT told.worker) AS workers, COUNT(*) AS lives,
    MAX(varied.values_of_key) AS values_of_key
FROM told
INNER JOIN varied ON varied.section = told.section AND varied.key = told.key
GROUP BY told.section, told.key, told.value
ORDER BY values_of_key DESC, told.section, told.key, lives DESC, told.value NULLS LAST;
