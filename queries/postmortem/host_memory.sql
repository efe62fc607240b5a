-- Host memory over time: the cgroup against its limit, pinned and shared memory, pressure, and kills
-- needs host.rss_bytes or host.cgroup_current_bytes or host.free_bytes: host, the agent, or a kernel log
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column worker: engine instance
-- column rss_bytes: resident set of the process
-- column cgroup_bytes: in use in the memory cgroup
-- column cgroup_limit_bytes: that it may use; NULL where unlimited or not told
-- column cgroup_ratio: used share of the limit, 0 to 1
-- column pinned_bytes: page-locked
-- column shared_bytes: shared memory
-- column swap_bytes: swapped out
-- column host_free_bytes: available on the host
-- column pressure_ratio: share of the last 10 s in which somebody waited for memory, 0 to 1
-- column new_oom_kills: kills for memory since the reading before; NULL where the counter is not told
SELECT
    stream, seq, line, ts, worker, rss_bytes, cgroup_current_bytes AS cgroup_bytes, cgroup_limit_bytes,
    round(cgroup_current_bytes / nullif(cgroup_limit_bytes, 0), 4) AS cgroup_ratio, pinned_bytes, shared_bytes, swap_bytes,
    free_bytes AS host_free_bytes, pressure_ratio,
    cgroup_oom_kills - lag(cgroup_oom_kills IGNORE NULLS) OVER (PARTITION BY stream, worker ORDER BY seq) AS new_oom_kills
FROM host
ORDER BY worker, ts NULLS LAST, stream, seq;
