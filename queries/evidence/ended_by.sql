-- Who else than the kernel may have ended a worker: a failed probe, an order to stop, or a kill of another process
-- params: stream
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column what: probe_kill or other_process_killed
-- column detail: as printed, redacted; the victim's name
SELECT stream, seq, line, code AS what, detail FROM fault WHERE stream = $stream AND code = 'probe_kill'
UNION ALL
SELECT stream, seq, line, name, victim FROM failure WHERE stream = $stream AND name = 'other_process_killed'
ORDER BY seq
LIMIT 16;
