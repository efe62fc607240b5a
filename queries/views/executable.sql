-- What a process is, by the name that the kernel or the driver's tool prints
-- column priority: of several that match the first counts
-- column role: cache_daemon, mps_server, trainer, engine, interpreter (a name that an engine's process may bear), compiler (of kernels, by an engine)
-- column name_pattern: regular expression found in the name
CREATE VIEW executable AS
SELECT priority, role, name_pattern
FROM (VALUES
    (1, 'mps_server', '(?i)nvidia-cuda-mps'),
    (2, 'cache_daemon', '(?i)lmcache|mooncake|infinistore|kvcache|kv_store'),
    (3, 'trainer', '(?i)train|megatron|deepspeed|accelerate|finetun|fsdp|actor.*update|\bppo\b|\bgrpo\b'),
    (4, 'engine', '(?i)vllm|sglang|enginecor|tritonserver|trtllm|tensorrt.?llm|lmdeploy|turbomind|text-generation|llama|triton_python|mlc_llm|mlc-llm|aphrodite|koboldcpp|localai|local-ai|exllama|tabbyapi|mistralrs|xinference|text-embedd|mindie'),
    (5, 'interpreter', '(?i)python|^pt_|^ray::|torchrun|uvicorn|gunicorn|mpirun|mpi4py|orted|^worker|multiproc|^raylet$'),
    (6, 'compiler', '^(?:nvcc|cicc|ptxas|cudafe|cc1plus|ninja|hipcc)')
) AS roles (priority, role, name_pattern);
