-- Out-of-memory rows with the figures put right and the derived ones
-- column allocated_true_bytes: allocated less the free blocks of private pools, which PyTorch from 2.4 on adds to the figure it prints
-- column cached_free_bytes: reserved but unallocated outside private pools, usable by an allocation of the same pool and stream
-- column private_free_bytes: free blocks cached in private pools (CUDA graphs), usable by those only
-- column framework_bytes: all that the framework has reserved
-- column non_framework_bytes: own process less framework: context, libraries, collectives, graphs' own memory
-- column others_bytes: device less own process less free: everybody else, where the own process is known
-- column ceiling_bytes: capacity, or the limit set by a memory fraction where there is one
-- column short_bytes: requested less what was free below the ceiling
CREATE VIEW oom_figures AS
WITH parts AS (
    SELECT
        *,
        allocated_bytes - coalesce(private_pool_bytes, 0) AS allocated_true_bytes,
        coalesce(reserved_unallocated_bytes, reserved_bytes - allocated_bytes) AS cached_free_bytes,
        private_pool_bytes AS private_free_bytes,
        coalesce(reserved_bytes, allocated_bytes + reserved_unallocated_bytes) AS framework_bytes,
        coalesce(limit_bytes, total_bytes) AS ceiling_bytes
    FROM oom
)
SELECT
    *,
    own_process_bytes - framework_bytes AS non_framework_bytes,
    coalesce(total_bytes - own_process_bytes - free_bytes, other_processes_bytes) AS others_bytes,
    requested_bytes - CASE
        WHEN limit_bytes IS NOT NULL AND framework_bytes IS NOT NULL
            THEN least(coalesce(free_bytes, limit_bytes), greatest(limit_bytes - framework_bytes, 0))
        ELSE free_bytes
    END AS short_bytes
FROM parts;
