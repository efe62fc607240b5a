-- A recording of eight ranks whose requests are all told of, with the KV pool exhausted at its end: see bulk.py
-- Requests come 15 in 4 seconds. Each grows by 25 tokens a second, a block is 16, a step takes 50 ms.
SET VARIABLE seconds = $requests / 3.75;
-- Those that come in the last minutes do not end: the pool fills, requests are preempted, and the engine gives up.
SET VARIABLE calm_requests = $requests - 3.75 * least(600, $requests / 3.75 / 4);

CREATE TABLE coming AS SELECT
    n, 'cmpl-' || printf('%016x', hash(n)) AS request_id, 'cohort-' || n % 5 AS cohort, n / 3.75 AS second,
    CAST(128 + hash(n, 1) % 256 AS BIGINT) AS prompt,
    CASE WHEN n < getvariable('calm_requests') THEN CAST(1200 + hash(n, 2) % 800 AS BIGINT) END AS output,
    second + output / 25 + 0.2 AS end_second
FROM range($requests) AS numbers (n);

CREATE TABLE change AS SELECT
    n, request_id, cohort, prompt, i, second + 0.2 + i * 0.64 AS second, prompt // 16 + 1 + i AS blocks,
    CASE i WHEN 0 THEN blocks ELSE 1 END AS delta
FROM (
    SELECT *, unnest(range(1 + CAST(floor((least(end_second, getvariable('seconds')) - second - 0.2) / 0.64) AS BIGINT))) AS i
    FROM (SELECT * REPLACE (coalesce(end_second, 1e9) AS end_second) FROM coming)
    WHERE second + 0.2 < getvariable('seconds')
);

CREATE TABLE ending AS SELECT
    coming.n, coming.request_id, cohort, prompt, output, end_second AS second, last.blocks
FROM coming
INNER JOIN (SELECT n, max(blocks) AS blocks FROM change GROUP BY n) AS last USING (n)
WHERE end_second < getvariable('seconds');

-- The pool's use is the sum of what the requests hold.
CREATE TABLE pool AS SELECT
    step_id, step_id / 20 AS second, coalesce(prefill, 0) AS prefill,
    CAST(sum(coalesce(delta, 0)) OVER (ORDER BY step_id) AS BIGINT) AS used,
    CAST(sum(coalesce(began, 0)) OVER (ORDER BY step_id) AS BIGINT) AS running
FROM range(CAST(20 * getvariable('seconds') AS BIGINT)) AS numbers (step_id)
LEFT JOIN (
    SELECT CAST(floor(20 * second) AS BIGINT) AS step_id, sum(delta) AS delta, sum(began) AS began, sum(prompt) AS prefill
    FROM (
        SELECT second, delta, CAST(i = 0 AS INT) AS began, CASE i WHEN 0 THEN prompt ELSE 0 END AS prompt FROM change
        UNION ALL
        SELECT second, -blocks, -1, 0 FROM ending
    )
    GROUP BY ALL
) USING (step_id);

CREATE TABLE clock AS SELECT
    'rank' || r AS stream, r AS rank, 'TP' || r AS rank_name, r AS device_id, n, n / 5 AS second
FROM range(8) AS ranked (r), range(CAST(5 * getvariable('seconds') AS BIGINT)) AS numbers (n);

-- Each table `made_KIND` has columns of the kind's view; `second` becomes the time, and with it the place in the stream.
CREATE TABLE made_lifecycle AS SELECT stream, rank, rank_name, device_id, p - 8 AS second, 'agent' AS source, phase
FROM clock, (
    VALUES (1, 'spawned'), (2, 'loading'), (3, 'weights_loaded'), (4, 'profiling'), (5, 'kv_allocated'), (6, 'ready'),
        (7, 'serving')
) AS phases (p, phase)
WHERE n = 0;

CREATE TABLE made_manifest AS SELECT 'core' AS stream, -8 AS second, 'agent' AS source, section, key, value
FROM (
    VALUES ('engine', 'name', 'vllm'), ('engine', 'version', '0.20.0'), ('argument', 'gpu_memory_utilization', '0.92'),
        ('argument', 'max_num_seqs', '4096')
) AS said (section, key, value);

CREATE TABLE made_step AS SELECT
    'core' AS stream, second, 'agent' AS source, step_id, CASE WHEN prefill > 0 THEN 'mixed' ELSE 'decode' END AS mode,
    prefill AS prefill_tokens, running AS decode_tokens, running AS running_requests, 0 AS waiting_requests,
    50000 AS duration_us
FROM pool;

CREATE TABLE made_kv_pool AS SELECT
    'core' AS stream, second + 0.001 AS second, 'agent' AS source, 'device' AS tier, 16 AS block_size_tokens,
    2 << 20 AS bytes_per_block, max(used) OVER () AS total_blocks, used AS used_blocks, total_blocks - used AS free_blocks,
    used / total_blocks AS usage_ratio, 16 * total_blocks AS total_tokens
FROM pool;

CREATE TABLE made_request AS
SELECT
    'core' AS stream, second, 'agent' AS source, request_id, CASE i WHEN 0 THEN 'admitted' ELSE 'blocks_changed' END AS event,
    cohort, prompt AS prompt_tokens, i * 16 AS output_tokens, blocks AS kv_blocks, delta AS kv_blocks_delta,
    1.0 AS sample_weight, 'all' AS sampled_by
FROM change
UNION ALL BY NAME
SELECT 'core' AS stream, second, 'agent' AS source, request_id, 'queued' AS event, cohort, prompt AS prompt_tokens,
    1.0 AS sample_weight, 'all' AS sampled_by
FROM coming
UNION ALL BY NAME
SELECT
    'core' AS stream, second + e / 100 AS second, 'agent' AS source, request_id, event, cohort, prompt AS prompt_tokens,
    output AS output_tokens, blocks * (1 - e) AS kv_blocks, -blocks * e AS kv_blocks_delta, 1.0 AS sample_weight,
    'all' AS sampled_by
FROM ending, (VALUES (0, 'finished'), (1, 'blocks_freed')) AS ends (e, event);

-- Blocks stay in the prefix cache for half a minute after their request.
CREATE TABLE made_kv_block AS
SELECT
    'kv_events' AS stream, second, 'kv_events' AS source, 'stored' AS op, printf('%016x', hash(n, b)) AS block_hash,
    16 AS tokens, 'GPU' AS medium
FROM (SELECT *, unnest(range(blocks - delta, blocks)) AS b FROM change)
UNION ALL BY NAME
SELECT
    'kv_events' AS stream, second + 30 AS second, 'kv_events' AS source, 'removed' AS op,
    printf('%016x', hash(n, b)) AS block_hash, 16 AS tokens, 'GPU' AS medium
FROM (SELECT *, unnest(range(blocks)) AS b FROM ending)
WHERE second + 30 < getvariable('seconds');

CREATE TABLE made_allocator AS SELECT
    stream, rank, rank_name, device_id, second, 'agent' AS source,
    CAST((60::BIGINT << 30) + hash(n, rank) % (1 << 30) AS BIGINT) AS allocated_bytes, 62::BIGINT << 30 AS reserved_bytes,
    CAST(hash(rank, n) % (1 << 30) AS BIGINT) AS inactive_split_bytes, 0 AS num_alloc_retries, 0 AS num_ooms
FROM clock;

CREATE TABLE made_device AS SELECT
    stream, rank, rank_name, device_id, second, 'nvml' AS source, 80::BIGINT << 30 AS total_bytes,
    12::BIGINT << 30 AS free_bytes
FROM clock
WHERE n % 5 = 0;

CREATE TABLE made_memory AS SELECT
    stream, rank, rank_name, device_id, second, 'agent' AS source, component, 'worker' AS lifetime, 'steady' AS owner,
    gib::BIGINT << 30 AS bytes
FROM clock, (VALUES ('weights', 30), ('kv_pool', 28), ('activation', 1)) AS parts (component, gib)
WHERE n % 25 = 0;

CREATE TABLE made_throughput AS SELECT
    'metrics' AS stream, second, 'prometheus' AS source, running AS running_requests, 0 AS waiting_requests,
    25.0 * running AS generation_tokens_per_s
FROM pool
WHERE step_id % 200 = 0;

CREATE TABLE made_oom AS SELECT
    'core' AS stream, getvariable('seconds') - 20 + n AS second, 'agent' AS source, 'kv_blocks' AS resource, 'engine' AS api,
    n = 20 AS fatal, CASE WHEN n = 20 THEN 'kv_exhausted' ELSE 'preemption' END AS error_type,
    CASE WHEN n = 20 THEN 'no free KV blocks for running requests' ELSE '1 of the running requests preempted' END AS message
FROM range(21) AS numbers (n)
WHERE n < 15 OR n = 20;
