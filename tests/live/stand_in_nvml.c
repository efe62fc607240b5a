/* libnvidia-ml.so.1 with one device and the C interface of NVML 12 (nvml.h), as far as the poller calls it.
   Functions that are not here are "not found" in this driver: MPS, events, accounting. */
#include <string.h>

typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process;

enum { SUCCESS = 0, INSUFFICIENT_SIZE = 7, NOT_SUPPORTED = 3 };

int nvmlInitWithFlags(unsigned int flags) { return flags ? NOT_SUPPORTED : SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)(1UL + index); return SUCCESS; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) { strncpy(uuid, "GPU-1234", length); return SUCCESS; }
int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending) { return NOT_SUPPORTED; }

int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *info) {
    if (info->version != (sizeof(memory_v2) | 2 << 24)) return 25; /* ARGUMENT_VERSION_MISMATCH */
    info->total = 1000; info->reserved = 10; info->free = 300; info->used = 690;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process *found) {
    if (found == 0 || *count < 2) { *count = 2; return INSUFFICIENT_SIZE; }
    *count = 2;
    found[0] = (process){.pid = 41, .used = 600};
    found[1] = (process){.pid = 42, .used = ~0ULL}; /* NVML_VALUE_NOT_AVAILABLE */
    return SUCCESS;
}

int nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) { strncpy(name, "VLLM::Worker", length); return SUCCESS; }
const char *nvmlErrorString(int code) { return "stand-in"; }
