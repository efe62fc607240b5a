-- Every failure, refusal, kill and memory-like fault, each numbered by the group of failures that it belongs to
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column ts: when, in UTC; NULL where the source tells no time
-- column ts_quality: how far ts is to be trusted
-- column node: host, where known
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column device_id: device index as the process sees it
-- column what: oom, refusal, killed or fault
-- column resource: device, kv_blocks, host, slots or driver; NULL for faults
-- column api: who reported it: torch, cuda, kernel, engine, system, ...
-- column name: error type, gate, or fault code; other_process_killed where the kernel's victim is none of the engine's
-- column message: as printed, redacted
-- column fatal: whether the engine died of it; NULL where not told
-- column stack_id: its traceback in kind stack, where there is one
-- column victim: the process that was killed for memory, by name
-- column victim_pid: its process id
-- column victim_is_engine: whether its name, its process id or the company it kept says that it is the engine's; NULL where nobody is named
-- column soft: the engine itself said that it goes on (a retraction, a fallback)
-- column episode: numbers the groups of failures of one worker and incarnation between which it made no progress; 0 for soft ones
CREATE VIEW failure AS
WITH written AS (
    SELECT DISTINCT TRY_CAST(regexp_extract(log.text, 'pid=(\d{1,10})\)', 1) AS BIGINT) AS pid
    FROM log
    WHERE log.text LIKE '%pid=%'
),

kill AS (
    SELECT oom.stream, oom.seq, oom.victim, oom.victim_pid, oom.api = 'kernel_cgroup' AS of_cgroup,
        oom.api = 'supervisor' AS of_container,
        oom.own_process_bytes AS held_bytes,
        -- A recorder knows whose process it was.
        source = 'host' OR EXISTS (SELECT 1 FROM executable WHERE regexp_matches(oom.victim, executable.name_pattern))
        OR EXISTS (SELECT 1 FROM written WHERE written.pid = oom.victim_pid) AS is_known,
        lag(oom.victim_pid) OVER (PARTITION BY oom.stream ORDER BY oom.seq) AS victim_pid_before
    FROM oom
    WHERE oom.error_type = 'oom_kill'
),

-- The kernel says of one kill whom it chose, whom it killed and whom it reaped.
numbered_kill AS (
    SELECT *, count_if(victim_pid IS DISTINCT FROM victim_pid_before) OVER (PARTITION BY stream ORDER BY seq) AS report
    FROM kill
),

report AS (
    SELECT * REPLACE (bool_or(of_cgroup) OVER told AS of_cgroup, max(held_bytes) OVER told AS held_bytes)
    FROM numbered_kill
    WINDOW told AS (PARTITION BY stream, report)
),

-- Whom a report names besides the victim: who asked for memory in vain, and the large tasks of the cgroup or the node.
named AS (
    SELECT stream, seq, NULL AS pid, regexp_extract(fault.detail, '(\S+) invoked oom-killer', 1) AS name
    FROM fault
    WHERE code = 'oom_killer'
    UNION ALL
    SELECT stream, seq, pid, name FROM process WHERE rss_bytes IS NOT NULL
),

-- Reports that name an engine's process: one of the same cgroup where a cgroup was full, else one that lived on.
beside AS (
    SELECT DISTINCT report.stream, report.report
    FROM named
    ASOF JOIN report ON named.stream = report.stream AND named.seq <= report.seq
    INNER JOIN executable ON regexp_matches(named.name, executable.name_pattern)
    WHERE named.pid IS DISTINCT FROM report.victim_pid
        AND (executable.role = 'engine' OR (executable.role = 'interpreter' AND report.of_cgroup))
),

engine AS (SELECT count(*) AS lines FROM manifest WHERE section = 'engine'),

-- Sources that list an engine's container, or pod, by name, image or command.
listed AS (
    SELECT DISTINCT stream
    FROM process
    INNER JOIN executable ON regexp_matches(process.name, executable.name_pattern)
    WHERE pid IS NULL AND executable.role = 'engine'
),

-- A victim that nothing ties to an engine. It is somebody else's where an engine is known, and where a cgroup was full that
-- could not hold one: Python, the framework and a device context alone take about 1 GiB. Else it may be an engine's.
judged AS (
    SELECT report.stream, report.seq, report.is_known OR (report.of_cgroup AND beside.report IS NOT NULL) AS is_engine,
        -- A container's own name may be any; another one of the list must be the engine's.
        NOT is_engine AND CASE
            WHEN report.of_container THEN report.stream IN (SELECT stream FROM listed)
            ELSE (SELECT lines FROM engine) > 0 OR beside.report IS NOT NULL
            OR (report.of_cgroup AND coalesce(report.held_bytes, 0) < 1 << 30)
        END AS is_stranger
    FROM report
    LEFT JOIN beside USING (stream, report)
    WHERE report.victim IS NOT NULL
),

-- The first line of a report that goes on to its kill says nothing more than the kill.
opening AS (
    SELECT stream, seq
    FROM (
        SELECT stream, seq, code, lead(code) OVER (PARTITION BY stream ORDER BY seq) AS next_code
        FROM (
            SELECT stream, seq, code FROM fault WHERE code = 'oom_killer'
            UNION ALL
            SELECT stream, seq, 'kill' FROM kill
        )
    )
    WHERE code = 'oom_killer' AND next_code = 'kill'
),

reported AS (
    SELECT
        oom.stream, oom.seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        CASE WHEN is_stranger THEN 'fault' ELSE 'oom' END AS what, resource, api,
        CASE WHEN is_stranger THEN 'other_process_killed' ELSE coalesce(error_type, api) END AS name,
        message, CASE WHEN is_stranger THEN FALSE ELSE fatal END AS fatal, stack_id, victim, victim_pid,
        judged.is_engine OR CASE WHEN oom.api = 'supervisor' AND NOT is_stranger THEN NULL ELSE FALSE END AS victim_is_engine, coalesce(NOT fatal, FALSE) AS soft, source
    FROM oom
    LEFT JOIN judged USING (stream, seq)
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'refusal', resource, 'engine', gate, message, NULL, stack_id, NULL, NULL, NULL, FALSE, source
    FROM refusal
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'killed', 'host', 'system', CASE WHEN signal = 9 THEN 'sigkill' ELSE 'vanished' END, detail, TRUE, NULL,
        NULL, NULL, NULL, FALSE, source
    FROM lifecycle
    -- A process that had failed before, or whose engine had given up, was not killed out of the blue: that is its shutdown.
    WHERE phase = 'killed' AND NOT EXISTS (
        SELECT 1 FROM fault
        WHERE fault.stream = lifecycle.stream AND fault.worker = lifecycle.worker
            AND fault.incarnation = lifecycle.incarnation AND fault.seq < lifecycle.seq
            AND (fault.code = 'engine_dead' OR (fault.code = 'exception' AND fault.rank_name <> 'APIServer'))
            -- A recorder sees a kill a moment after those who miss the process: that it is gone is no failure before its end.
            AND NOT (
                lifecycle.source = 'host' AND lifecycle.exit_code IS NULL AND coalesce(lifecycle.signal, 9) = 9
                AND (fault.code = 'engine_dead' OR regexp_matches(coalesce(fault.detail, ''),
                    '(?i)^\w+: (cancelled|.{0,80}\b(executor|workers?|process)\b[^.:]{0,40}\b(failed|died|exited|crashed))\W*$'))
            )
    ) AND NOT EXISTS (
        SELECT 1 FROM drained
        WHERE drained.stream = lifecycle.stream AND drained.worker = lifecycle.worker
            AND drained.incarnation = lifecycle.incarnation AND drained.seq < lifecycle.seq
    )
    UNION ALL
    SELECT
        stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id,
        'fault', NULL, 'engine', code, detail, fatal, stack_id, NULL, NULL, NULL, FALSE, source
    FROM fault
    WHERE code NOT IN ('exception', 'engine_dead', 'collective_failed', 'xid_cleanup') AND NOT EXISTS (
        SELECT 1 FROM opening WHERE opening.stream = fault.stream AND opening.seq = fault.seq
    ) AND NOT EXISTS (
        SELECT 1 FROM drained
        WHERE drained.stream = fault.stream AND drained.worker = fault.worker
            AND drained.incarnation = fault.incarnation AND drained.seq < fault.seq
    )
),

progress AS (
    SELECT stream, seq, worker, incarnation, node, source
    FROM throughput
    WHERE coalesce(generation_tokens_per_s, 0) > 0 OR coalesce(prompt_tokens_per_s, 0) > 0
    UNION ALL
    SELECT stream, seq, worker, incarnation, node, source
    FROM step
    WHERE NOT coalesce(dumped, FALSE)
    UNION ALL
    SELECT stream, seq, worker, incarnation, node, source
    FROM lifecycle
    -- An answer is printed when it begins: it may stand behind the failure that ends it.
    WHERE phase IN ('ready', 'serving') AND coalesce(detail, '') NOT LIKE 'a request was answered%'
),

mark AS (
    SELECT stream, seq, worker, incarnation, node, source, soft, TRUE AS fails FROM reported
    UNION ALL
    SELECT stream, seq, worker, incarnation, node, source, NULL, FALSE FROM progress
),

counted AS (
    SELECT
        *,
        -- On its own node: the clocks of two nodes differ, and one may seem to work on after the other has failed.
        min(CASE WHEN NOT fails THEN seq END) OVER (
            PARTITION BY worker, incarnation, stream, CASE WHEN source <> 'log' THEN node END ORDER BY seq
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_progress
    FROM mark
),

hard AS (
    SELECT *, lag(next_progress) OVER (PARTITION BY worker, incarnation, stream ORDER BY seq) AS went_on
    FROM counted
    WHERE fails AND NOT soft
),

numbered AS (
    SELECT
        stream, seq,
        1 + sum(CASE WHEN went_on < seq THEN 1 ELSE 0 END) OVER (
            PARTITION BY worker, incarnation, stream ORDER BY seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS episode
    FROM hard
)

SELECT reported.* EXCLUDE (source), coalesce(numbered.episode, 0) AS episode
FROM reported
LEFT JOIN numbered USING (stream, seq);
