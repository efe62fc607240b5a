-- Are the shards and replicas of each rank known?
-- column met: TRUE met, FALSE not met, NULL not observed
-- column evidence: what decides it, or what is missing
SELECT
    CASE WHEN count(*) > 0 THEN TRUE END AS met,
    coalesce(string_agg(DISTINCT key || ' ' || value, ', '), 'no parallelism was told') AS evidence
FROM manifest
WHERE key IN ('tensor_parallel_size', 'pipeline_parallel_size', 'data_parallel_size', 'tp_size', 'pp_size', 'dp_size', 'ep_size', 'num_shard', 'tp')
