-- The phases of each worker's life: when each began, how long it lasted, and the last line before the next
-- needs lifecycle.phase: the agent, the recorder, or an engine log
-- column stream: source of the rows
-- column seq: place in the stream of the row with which the phase began
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column phase: spawned, loading, weights_loaded, profiling, kv_allocated, compiling, capturing, ready, serving, ...
-- column ranks: how many ranks reported it; NULL where none is named
-- column started: when the first rank reported it, in UTC; NULL where the source tells no time
-- column duration_s: seconds until the next phase, or until the last row of this life; NULL where a time is unknown or ran backwards
-- column first_line: line of the source with which the phase began
-- column last_line: last line of the source that gave a row before the next phase began
-- column last_text: that line as it stands, where it was kept
-- column detail: what the source said of the phase
WITH entered AS (
    SELECT stream, seq, line, ts, worker, incarnation, rank, rank_name, phase, detail
    FROM lifecycle
    QUALIFY phase IS DISTINCT FROM lag(phase) OVER (PARTITION BY stream, worker, incarnation, rank_name ORDER BY seq)
),

-- Ranks tell the same phase one after another: the n-th time that each of them enters it is one phase of the worker.
counted AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY stream, worker, incarnation, rank_name, phase ORDER BY seq) AS turn
    FROM entered
),

phase_of AS (
    SELECT
        stream, worker, incarnation, phase,
        min(seq) AS seq,
        nullif(count(DISTINCT rank), 0) AS ranks,
        min(ts) AS started,
        min(line) AS first_line,
        arg_min(detail, seq) AS detail
    FROM counted
    GROUP BY stream, worker, incarnation, phase, turn
),

followed AS (
    SELECT
        *,
        lead(seq) OVER life AS next_seq,
        lead(first_line) OVER life AS next_line,
        lead(started) OVER life AS next_started
    FROM phase_of
    WINDOW life AS (PARTITION BY stream, worker, incarnation ORDER BY seq)
),

spanned AS (
    SELECT
        followed.stream, followed.seq, followed.worker, followed.incarnation, followed.phase,
        any_value(followed.ranks) AS ranks,
        any_value(followed.started) AS started,
        any_value(CASE WHEN followed.next_seq IS NULL THEN NULL ELSE followed.next_started END) AS next_started,
        any_value(followed.next_seq) AS next_seq,
        max(events.ts) AS last_ts,
        any_value(followed.first_line) AS first_line,
        max(events.line) AS last_line,
        any_value(followed.detail) AS detail
    FROM followed
    LEFT JOIN events
        ON events.stream = followed.stream
        AND events.worker = followed.worker
        AND events.incarnation IS NOT DISTINCT FROM followed.incarnation
        AND events.seq >= followed.seq
        AND events.seq < coalesce(followed.next_seq, 9223372036854775807)
        -- The line that begins the next phase may have given rows before its lifecycle row.
        AND (events.line < followed.next_line OR followed.next_line IS NULL OR events.line IS NULL)
    GROUP BY followed.stream, followed.seq, followed.worker, followed.incarnation, followed.phase
),

timed AS (
    SELECT
        *,
        date_diff('microsecond', started, CASE WHEN next_seq IS NULL THEN last_ts ELSE next_started END) AS duration_us
    FROM spanned
)

SELECT
    timed.stream, timed.seq, timed.worker, timed.incarnation, timed.phase, timed.ranks, timed.started,
    CASE WHEN timed.duration_us >= 0 THEN round(timed.duration_us / 1e6, 3) END AS duration_s,
    timed.first_line, timed.last_line,
    (SELECT min(log.text) FROM log WHERE log.stream = timed.stream AND log.line = timed.last_line) AS last_text,
    timed.detail
FROM timed
ORDER BY timed.stream, timed.seq;
