-- Where the bytes were at each failure: the figures put right, and what was known of the rank's components
-- column stream: source of the rows
-- column seq: place in the stream of the failure
-- column line: line of the source that tells the failure
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank of the failure, or of the component where the failure names none
-- column failure: error type, event or gate
-- column part: requested, total, free, own_process, others, framework, allocated (put right), ..., or a component such as weights
-- column owner: which figure of a component (steady, load_peak, available, estimate, ...)
-- column bytes: how many; parts that were not observed have no row
-- column gib: the same in GiB, to three decimals
-- column tokens: KV tokens, where the part is told in tokens
-- column resolution_bytes: half a unit of the last printed digit, where it is known
-- column source_line: line of the source that gave the figure
WITH figured AS (
    SELECT
        stream, seq, line, worker, incarnation, rank, coalesce(error_type, api) AS failure, resolution_bytes,
        unnest([
            {'n': 1, 'part': 'requested', 'bytes': requested_bytes, 'tokens': requested_tokens},
            {'n': 2, 'part': 'short', 'bytes': short_bytes, 'tokens': requested_tokens - available_tokens},
            {'n': 3, 'part': 'total', 'bytes': total_bytes, 'tokens': NULL},
            {'n': 4, 'part': 'limit', 'bytes': limit_bytes, 'tokens': NULL},
            {'n': 5, 'part': 'free', 'bytes': free_bytes, 'tokens': available_tokens},
            {'n': 6, 'part': 'others', 'bytes': others_bytes, 'tokens': NULL},
            {'n': 7, 'part': 'own_process', 'bytes': own_process_bytes, 'tokens': NULL},
            {'n': 8, 'part': 'non_framework', 'bytes': non_framework_bytes, 'tokens': NULL},
            {'n': 9, 'part': 'framework', 'bytes': framework_bytes, 'tokens': NULL},
            {'n': 10, 'part': 'allocated', 'bytes': allocated_true_bytes, 'tokens': NULL},
            {'n': 11, 'part': 'cached_free', 'bytes': cached_free_bytes, 'tokens': NULL},
            {'n': 12, 'part': 'private_pool_free', 'bytes': private_free_bytes, 'tokens': NULL}
        ]) AS figure
    FROM oom_figures
    WHERE fatal IS DISTINCT FROM FALSE
    UNION ALL
    SELECT
        stream, seq, line, worker, incarnation, rank, gate, resolution_bytes,
        unnest([
            {'n': 1, 'part': 'needed', 'bytes': needed_bytes, 'tokens': needed_tokens},
            {'n': 2, 'part': 'short', 'bytes': needed_bytes - available_bytes, 'tokens': needed_tokens - available_tokens},
            {'n': 3, 'part': 'total', 'bytes': total_bytes, 'tokens': NULL},
            {'n': 5, 'part': 'available', 'bytes': available_bytes, 'tokens': available_tokens}
        ])
    FROM refusal
),

failed AS (
    SELECT DISTINCT stream, seq, line, worker, incarnation, rank, failure FROM figured
),

component AS (
    SELECT
        failed.*, memory.component, memory.owner, memory.bytes, memory.resolution_bytes, memory.rank AS component_rank,
        memory.seq AS component_seq, memory.line AS source_line
    FROM failed
    INNER JOIN memory
        ON memory.stream = failed.stream
        AND memory.worker = failed.worker
        AND memory.incarnation IS NOT DISTINCT FROM failed.incarnation
        AND memory.seq < failed.seq
        AND (memory.rank = failed.rank OR memory.rank IS NULL OR failed.rank IS NULL)
    QUALIFY row_number() OVER (
        PARTITION BY failed.stream, failed.seq, memory.rank, memory.component, memory.owner ORDER BY memory.seq DESC
    ) = 1
),

told AS (
    SELECT
        stream, seq, line, worker, incarnation, rank, failure, figure.n AS n, seq AS source_seq, figure.part AS part,
        NULL AS owner, figure.bytes AS bytes, figure.tokens AS tokens, resolution_bytes, line AS source_line
    FROM figured
    UNION ALL
    SELECT
        stream, seq, line, worker, incarnation, coalesce(rank, component_rank), failure, 100, component_seq, component,
        owner, bytes, NULL, resolution_bytes, source_line
    FROM component
)

SELECT
    stream, seq, line, worker, incarnation, rank, failure, part, owner, bytes, round(bytes / 1073741824, 3) AS gib, tokens,
    CASE WHEN bytes IS NOT NULL AND (n = 100 OR part IN ('requested', 'free', 'short', 'needed', 'available'))
        THEN resolution_bytes
    END AS resolution_bytes,
    source_line
FROM told
WHERE bytes IS NOT NULL OR tokens IS NOT NULL
ORDER BY stream, seq, n, source_seq;
