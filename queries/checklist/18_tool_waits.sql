-- Is there a policy for what a request holds while a tool runs?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(tool_action) > 0 THEN TRUE WHEN count(*) > 0 THEN FALSE END AS met,
    format('{} tool pauses, {} with an action', count(*), count(tool_action)) AS evidence
FROM request
WHERE event = 'tool_wait_started'
