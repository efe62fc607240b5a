-- Reuse of the prefix cache, by prefix and tenant
-- needs request.cached_tokens: the agent, otlp, or a trace
-- column worker: engine instance
-- column prefix_id: hash of the shared prefix; NULL where the source does not tell it
-- column tenant: tenant; NULL where none is told
-- column requests: admitted ones, each counted as often as it stands for
-- column hits: of these with any cached token
-- column prompt_tokens: of their prompts
-- column cached_tokens: of these found in the cache
-- column hit_ratio: cached per prompt token, 0 to 1; it is no saving of memory of that share
-- column tenants_of_prefix: how many tenants have sent that prefix; more than one is shared across tenants
WITH admitted AS (
    SELECT
        worker, incarnation, stream, request_id, max(prefix_id) AS prefix_id, max(tenant) AS tenant,
        max(prompt_tokens) AS prompt, coalesce(max(sample_weight), 1) AS weight,
        -- A request that comes back after a preemption finds its own blocks: that is no reuse of a prefix.
        arg_min(cached_tokens, seq) FILTER (event <> 'resumed') AS cached
    FROM request
    WHERE request_id IS NOT NULL
    GROUP BY worker, incarnation, stream, request_id
),

counted AS (
    SELECT
        worker, prefix_id, tenant, round(sum(weight), 1) AS requests,
        round(coalesce(sum(weight) FILTER (cached > 0), 0), 1) AS hits,
        CAST(round(sum(prompt * weight)) AS BIGINT) AS prompt_tokens,
        CAST(round(sum(cached * weight)) AS BIGINT) AS cached_tokens
    FROM admitted
    WHERE cached IS NOT NULL
    GROUP BY worker, prefix_id, tenant
)

SELECT
    *, round(cached_tokens / nullif(prompt_tokens, 0), 4) AS hit_ratio,
    CASE WHEN prefix_id IS NOT NULL THEN count(tenant) OVER (PARTITION BY worker, prefix_id) END AS tenants_of_prefix
FROM counted
ORDER BY worker, prompt_tokens DESC, prefix_id NULLS LAST, tenant NULLS LAST;
