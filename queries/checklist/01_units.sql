-- Are sizes kept as bytes, with the resolution at which they were printed?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(bytes) = 0 THEN NULL ELSE count(bytes) = count(*) END AS met,
    format('{} figures of components in bytes, {} with the resolution of print', count(bytes), count(resolution_bytes)) AS evidence
FROM memory
