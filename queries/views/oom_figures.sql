-- Out-of-memory rows with the figures put right and the derived ones
-- column ts: when, in UTC; NULL where the source tells no time
-- column ts_quality: how far ts is to be trusted
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column node: host, where known
-- column worker: engine instance
-- column incarnation: which life of that worker
-- column rank: global rank, where known
-- column rank_name: rank or process as printed
-- column device_id: device index as the process sees it
-- column source: what kind of collector wrote the row
-- column quality: how the figures came about
-- column resource: of what
-- column api: who reported it: torch, cuda, hip, cublas, nccl, cpu_allocator, kernel, engine, ...
-- column error_type: exception type, or the event (retraction, preemption, oom_kill, sigkill)
-- column message: as printed, redacted
-- column requested_bytes: asked for
-- column total_bytes: device capacity
-- column free_bytes: free on the device
-- column own_process_bytes: this process, as the driver counts it
-- column other_processes_bytes: all the others that the message names
-- column allocated_bytes: allocated by the framework, as printed
-- column reserved_bytes: reserved in total, in the forms that print it (PyTorch before 2.1)
-- column reserved_unallocated_bytes: reserved but unallocated, as printed
-- column private_pool_bytes: printed as allocated in private pools; really free blocks cached there
-- column limit_bytes: a limit below the capacity (memory fraction)
-- column resolution_bytes: print resolution of the least exact of requested and free
-- column requested_tokens: KV tokens asked for
-- column available_tokens: KV tokens free
-- column requests: requests preempted, retracted or dropped
-- column victim: the process that was killed for memory, by the name that its killer gives
-- column victim_pid: its process id, as its killer counts
-- column fatal: whether the engine died of it; NULL where not told
-- column stack_id: the traceback, in kind stack
-- column allocated_true_bytes: allocated less the free blocks of private pools, which PyTorch from 2.4 on adds to the figure it prints
-- column cached_free_bytes: reserved but unallocated outside private pools, usable by an allocation of the same pool and stream
-- column private_free_bytes: free blocks cached in private pools (CUDA graphs), usable by those only
-- column framework_bytes: all that the framework has reserved
-- column ceiling_bytes: capacity, or the limit set by a memory fraction where there is one
-- column non_framework_bytes: own process less framework: context, libraries, collectives, graphs' own memory
-- column others_bytes: device less own process less free: everybody else, where the own process is known
-- column short_bytes: requested less what was free below the ceiling; NULL where that was enough, and something else refused
CREATE VIEW oom_figures AS
WITH parts AS (
    SELECT
        * REPLACE (
            -- A snapshot keeps the block's size; the driver is asked for a segment, as the message tells.
            CASE
                WHEN source IS DISTINCT FROM 'snapshot' THEN requested_bytes
                WHEN requested_bytes <= 1048576 THEN 2097152
                WHEN requested_bytes < 10485760 THEN 20971520
                ELSE CAST(ceil(requested_bytes / 2097152) * 2097152 AS BIGINT)
            END AS requested_bytes
        ),
        allocated_bytes - coalesce(private_pool_bytes, 0) AS allocated_true_bytes,
        coalesce(reserved_unallocated_bytes, reserved_bytes - allocated_bytes) AS cached_free_bytes,
        private_pool_bytes AS private_free_bytes,
        coalesce(reserved_bytes, allocated_bytes + reserved_unallocated_bytes) AS framework_bytes,
        coalesce(limit_bytes, total_bytes) AS ceiling_bytes
    FROM oom
),
rooms AS (
    SELECT
        *,
        CASE
            WHEN limit_bytes IS NOT NULL AND framework_bytes IS NOT NULL
                THEN least(coalesce(free_bytes, limit_bytes), greatest(limit_bytes - framework_bytes, 0))
            ELSE free_bytes
        END AS room_bytes
    FROM parts
)
SELECT
    * EXCLUDE (room_bytes),
    own_process_bytes - framework_bytes AS non_framework_bytes,
    coalesce(total_bytes - own_process_bytes - free_bytes, other_processes_bytes) AS others_bytes,
    CASE WHEN requested_bytes > room_bytes THEN requested_bytes - room_bytes END AS short_bytes
FROM rooms;
