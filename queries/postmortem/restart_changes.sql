-- What changed at each restart: versions, arguments, and the figures that every start prints
-- needs manifest.key: the agent, prometheus, or an engine log
-- column worker: engine instance
-- column before: the earlier life
-- column after: the next one
-- column section: model, engine, parallelism, format, argument, environment; or figure: the last one of that life
-- column key: as the engine spells it, or the component; figures in bytes, blocks or tokens, as the name says
-- column old_value: in the earlier life; NULL where it did not tell
-- column new_value: in the next one; NULL where it did not tell
-- column change: changed, only before, only after
WITH told AS (
    SELECT worker, incarnation, section, key, value, seq, ts
    FROM manifest
    UNION ALL
    SELECT worker, incarnation, 'figure', concat_ws(' ', component, owner, 'bytes'), CAST(bytes AS VARCHAR), seq, ts
    FROM memory
    WHERE bytes IS NOT NULL AND component IN ('weights', 'kv_pool', 'graph_pool') AND coalesce(rank, 0) = 0
    UNION ALL
    SELECT worker, incarnation, 'figure', figure.key, CAST(figure.value AS VARCHAR), seq, ts
    FROM (
        SELECT worker, incarnation, seq, ts, unnest([
            {'key': 'kv total_blocks', 'value': total_blocks}, {'key': 'kv total_tokens', 'value': total_tokens}
        ]) AS figure
        FROM kv_pool
    )
    WHERE figure.value IS NOT NULL
),

life AS (
    SELECT
        worker, incarnation,
        lag(incarnation) OVER (PARTITION BY worker ORDER BY min(ts) NULLS LAST, min(seq), incarnation) AS earlier
    FROM told
    WHERE worker IS NOT NULL AND incarnation IS NOT NULL
    GROUP BY worker, incarnation
),

latest AS (
    SELECT worker, incarnation, section, key, arg_max(value, (coalesce(ts, TIMESTAMP '1970-01-01'), seq)) AS value
    FROM told
    GROUP BY worker, incarnation, section, key
),

pair AS (
    SELECT
        life.worker, life.earlier AS before, life.incarnation AS after, latest.section, latest.key,
        max(latest.value) FILTER (latest.incarnation = life.earlier) AS old_value,
        max(latest.value) FILTER (latest.incarnation = life.incarnation) AS new_value
    FROM life
    INNER JOIN latest ON latest.worker = life.worker AND latest.incarnation IN (life.earlier, life.incarnation)
    WHERE life.earlier IS NOT NULL
    GROUP BY ALL
)

SELECT
    *,
    CASE WHEN old_value IS NULL THEN 'only after' WHEN new_value IS NULL THEN 'only before' ELSE 'changed' END AS change
FROM pair
WHERE old_value IS DISTINCT FROM new_value
ORDER BY worker, before, after, section = 'figure', section, key;
