-- Every failure, refusal, kill and memory-like fault, in order, each numbered by the group of failures that it belongs to
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
SELECT
    stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, device_id, what, resource, api,
    name, message, fatal, stack_id, victim, victim_pid, victim_is_engine, soft, episode
FROM failure
ORDER BY stream, seq;
