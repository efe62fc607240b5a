-- Are allocated, reserved and device-free bytes recorded side by side?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
WITH inside AS (
    SELECT count(*) AS n FROM allocator WHERE allocated_bytes IS NOT NULL AND reserved_bytes IS NOT NULL
), outside AS (SELECT count(*) AS n FROM device WHERE free_bytes IS NOT NULL)
SELECT
    CASE WHEN inside.n > 0 AND outside.n > 0 THEN TRUE WHEN inside.n + outside.n > 0 THEN FALSE END AS met,
    format('{} readings of the allocator, {} of the device', inside.n, outside.n) AS evidence
FROM inside, outside
