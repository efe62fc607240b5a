-- Do the blocks of cancelled requests return?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH cancelled AS (SELECT DISTINCT worker, request_id FROM request WHERE event = 'cancelled' AND request_id IS NOT NULL),
freed AS (SELECT DISTINCT worker, request_id FROM request WHERE event = 'blocks_freed')
SELECT
    CASE WHEN count(*) = 0 THEN NULL ELSE count(freed.request_id) = count(*) END AS met,
    format('the blocks of {} of {} cancelled requests returned', count(freed.request_id), count(*)) AS evidence
FROM cancelled
LEFT JOIN freed USING (worker, request_id)
