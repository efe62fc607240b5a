-- Reports in which running requests went back to the queue while the KV pool was full: preemption, which vLLM V1 does not log
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
-- column usage_ratio: used share of the pool at the report, or at the one before, whichever is larger
-- column running_requests: requests in the batch
-- column waiting_requests: requests in the queue
-- column running_before: requests in the batch at the report before
-- column waiting_before: requests in the queue at the report before
-- column lost: requests that left the batch for the queue
SELECT
    stream, seq, line, ts, ts_quality, node, worker, incarnation, rank, rank_name, usage_ratio, running_requests,
    waiting_requests, running_before, waiting_before, lost
FROM kv_pressure
ORDER BY stream, seq;
