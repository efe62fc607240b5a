-- What memory, pools and queues did in a span of time: each figure's first, last, least and most
-- param from_us = 0: microseconds since 1970
-- param to_us = 9000000000000000: microseconds since 1970
-- column figure: kind and field of the event table
-- column whose: rank, process, device or tier, where the row tells
-- column readings: rows that tell it
-- column first: at the first of them
-- column last: at the last
-- column least: of all
-- column most: of all
-- column stream: source of the rows
-- column first_seq: place in the stream of the first
-- column last_seq: place in the stream of the last
WITH reading AS (
    SELECT stream, seq, ts, concat_ws(' ', rank_name, tier, group_id) AS whose, unnest([
        {'figure': 'kv_pool.total_blocks', 'value': CAST(total_blocks AS DOUBLE)},
        {'figure': 'kv_pool.free_blocks', 'value': free_blocks},
        {'figure': 'kv_pool.used_blocks', 'value': used_blocks},
        {'figure': 'kv_pool.usage_ratio', 'value': usage_ratio},
        {'figure': 'kv_pool.preempted_requests', 'value': preempted_requests},
        {'figure': 'kv_pool.prefix_query_tokens', 'value': prefix_query_tokens},
        {'figure': 'kv_pool.prefix_hit_tokens', 'value': prefix_hit_tokens},
        {'figure': 'kv_pool.prefix_evicted_tokens', 'value': prefix_evicted_tokens}
    ], recursive := TRUE)
    FROM kv_pool
    UNION ALL
    SELECT stream, seq, ts, concat_ws(' ', rank_name, 'device', device_id), unnest([
        {'figure': 'allocator.allocated_bytes', 'value': CAST(allocated_bytes AS DOUBLE)},
        {'figure': 'allocator.reserved_bytes', 'value': reserved_bytes},
        {'figure': 'allocator.inactive_split_bytes', 'value': inactive_split_bytes},
        {'figure': 'allocator.private_pool_bytes', 'value': private_pool_bytes},
        {'figure': 'allocator.num_alloc_retries', 'value': num_alloc_retries},
        {'figure': 'allocator.num_ooms', 'value': num_ooms}
    ], recursive := TRUE)
    FROM allocator
    UNION ALL
    SELECT stream, seq, ts, concat_ws(' ', 'device', device_id), unnest([
        {'figure': 'device.used_bytes', 'value': CAST(used_bytes AS DOUBLE)},
        {'figure': 'device.free_bytes', 'value': free_bytes}
    ], recursive := TRUE)
    FROM device
    UNION ALL
    SELECT stream, seq, ts, concat_ws(' ', name, pid), unnest([
        {'figure': 'process.used_bytes', 'value': CAST(used_bytes AS DOUBLE)},
        {'figure': 'process.rss_bytes', 'value': rss_bytes}
    ], recursive := TRUE)
    FROM process
    UNION ALL
    SELECT stream, seq, ts, '', unnest([
        {'figure': 'host.rss_bytes', 'value': CAST(rss_bytes AS DOUBLE)},
        {'figure': 'host.cgroup_current_bytes', 'value': cgroup_current_bytes},
        {'figure': 'host.free_bytes', 'value': free_bytes}
    ], recursive := TRUE)
    FROM host
    UNION ALL
    SELECT stream, seq, ts, concat_ws(' ', rank_name), unnest([
        {'figure': 'throughput.running_requests', 'value': CAST(running_requests AS DOUBLE)},
        {'figure': 'throughput.waiting_requests', 'value': waiting_requests}
    ], recursive := TRUE)
    FROM throughput
)

SELECT
    figure, whose, count(*) AS readings, arg_min(value, seq) AS first, arg_max(value, seq) AS last, min(value) AS least,
    max(value) AS most, stream, min(seq) AS first_seq, max(seq) AS last_seq
FROM reading
WHERE value IS NOT NULL AND epoch_us(ts) BETWEEN CAST($from_us AS BIGINT) AND CAST($to_us AS BIGINT)
GROUP BY figure, whose, stream
ORDER BY figure, whose, stream;
