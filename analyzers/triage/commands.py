"""Commands that tell now what no log told: the same wherever a verdict names one."""

KERNEL_LOG = "dmesg -T | grep -iE 'oom-kill|out of memory|killed process'"
XID_LOG = "dmesg -T | grep -i xid"
POD = "kubectl describe pod POD"
CGROUP = "cat /sys/fs/cgroup/memory.events"
SHARED_MEMORY = "df -h /dev/shm"
CORE = "coredumpctl debug"
STACKS = "py-spy dump --pid PID"
TRUE_STACK = "CUDA_LAUNCH_BLOCKING=1"
GPU_PROCESSES = "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv"
_OTHER_DRIVERS = {
    "NPU": "npu-smi info",
    "HIP": "rocm-smi --showpids",
    "XPU": "xpu-smi ps",
    "MUSA": "mthreads-gmi -q",
    "MLU": "cnmon info",
}
_OTHER_APIS = {"cann": "NPU", "hip": "HIP", "level_zero": "XPU"}
SNAPSHOT = "torch.cuda.memory._record_memory_history(); ...; torch.cuda.memory._dump_snapshot('snapshot.pickle')"


def processes(api: str | None, message: str | None) -> str:
    """Who holds the device, by the tool of its vendor, as far as the failure tells which that is."""
    if api == "xla":
        return "tpu-info"
    if api == "metal":
        return "footprint -a | head -40"
    backend = _OTHER_APIS.get(api or "")
    backend = backend or next((name for name in _OTHER_DRIVERS if (message or "").find(f"{name} out of memory") >= 0), None)
    return _OTHER_DRIVERS.get(backend or "", GPU_PROCESSES)
