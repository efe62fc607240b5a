-- The requests that were recorded, each once for every source that told of it, in the order of arrival
-- column source: who told of it
-- column worker: engine instance
-- column incarnation: start of it
-- column request_id: as the engine names it
-- column session_id: conversation
-- column cohort: as labelled
-- column tenant: whose
-- column adapter: with which
-- column arrival_us: when it arrived, in microseconds since 1970; the first that was told of it where no arrival was
-- column first_token_us: when its first token came
-- column end_us: when it finished, or was cancelled or rejected
-- column ended: finished, cancelled or rejected; NULL where no end was recorded
-- column prompt_tokens: prompt length
-- column cached_tokens: of these from the prefix cache, at its first scheduling
-- column output_tokens: generated
-- column max_output_tokens: allowed
-- column weight: how many requests it stands for
SELECT
  source,
  worker,
  incarnation,
  request_id,
  max(session_id) AS session_id,
  max(cohort) AS cohort,
  max(tenant) AS tenant,
  max(adapter) AS adapter,
  epoch_us(coalesce(min(ts) FILTER (WHERE event = 'arrived'), min(ts))) AS arrival_us,
  epoch_us(min(ts) FILTER (WHERE event = 'first_token')) AS first_token_us,
  epoch_us(max(ts) FILTER (WHERE event IN ('finished', 'cancelled', 'rejected'))) AS end_us,
  max(event) FILTER (WHERE event IN ('finished', 'cancelled', 'rejected')) AS ended,
  max(prompt_tokens) AS prompt_tokens,
  arg_min(cached_tokens, seq) AS cached_tokens,
  max(output_tokens) AS output_tokens,
  max(max_output_tokens) AS max_output_tokens,
  max(sample_weight) AS weight
FROM request
WHERE request_id IS NOT NULL AND event IS DISTINCT FROM 'tool_wait_started' AND event IS DISTINCT FROM 'tool_wait_ended'
GROUP BY source, worker, incarnation, request_id
ORDER BY arrival_us NULLS LAST, source, worker, incarnation, request_id;
