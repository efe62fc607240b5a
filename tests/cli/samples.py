"""Hand-built verdicts for the renderers. The figures are those of vLLM's report 57475, with a hostile log line added."""

from oomctl.schemas.verdict import (
    AllocatorState,
    Alternative,
    Cascade,
    Cause,
    Citation,
    Cohort,
    Evidence,
    Incident,
    Input,
    MemoryNode,
    Missing,
    Remedy,
    Triage,
)

MIB = 1024 * 1024
GIB = 1024 * MIB
HOSTILE = "\x1b[31mred\x1b[0m [bold red]markup[/] ``` fence ```` <b>html</b> | pipe \u202ereversed\r\n# heading"


def cite(line: int, text: str, query: str = "failures") -> Citation:
    return Citation(stream="engine.log", seq=line * 10, query=query, file="engine.log", line=line, text=text)


def warm_up() -> Incident:
    message = cite(
        33,
        "(EngineCore_DP0 pid=1044) ERROR 09-18 14:04:16 [core.py:1180] torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 771.00 MiB is free.",
    )
    return Incident(
        id="engine.log-330",
        verdict="oom",
        oom_class="warm_up",
        code="OOM002",
        resource="device",
        confidence=0.93,
        survived=False,
        summary="Capturing CUDA graphs asked for 786.00 MiB, and 771.00 MiB were free on the device.",
        phase="capturing",
        ts="2026-09-18T14:04:16Z",
        ts_quality="local",
        engine="vllm",
        engine_version="0.29.1",
        worker="engine.log",
        incarnation="2",
        rank=0,
        rank_name="EngineCore_DP0",
        requested_bytes=786 * MIB,
        short_bytes=15 * MIB,
        causes=[
            Cause(cause="over_committed_budget", bytes=15 * MIB, detail="0.98 of the device was promised"),
            Cause(cause="graph_capture", tokens=1024, cites=(message,)),
        ],
        evidence=[
            Evidence(
                says="The failure came after the KV cache was allocated and before the server was ready.",
                supports="warm_up",
                weight=0.8,
                cites=(cite(14, "Capturing CUDA graphs (decode, FULL):   0%|          | 0/1", "phases"), message),
            ),
            Evidence(says="A user's text is quoted.", supports="warm_up", weight=0.1, cites=(cite(20, HOSTILE),)),
        ],
        against=[
            Evidence(
                says="No graph of an earlier shape had failed.",
                supports="decode_growth",
                weight=0.1,
                cites=(Citation(stream="ring-0", seq=7, query="graphs"),),
            )
        ],
        alternatives=[Alternative(oom_class="load_time", code="OOM001", confidence=0.05, why="weights came late")],
        missing=[
            Missing(what="who else held device memory", collector="nvml", command="nvidia-smi --query-compute-apps=pid"),
            Missing(what="the allocator's pools", collector="agent"),
        ],
        memory_at_oom=MemoryNode(
            name="device",
            bytes=int(31.36 * GIB),
            quality="measured",
            children=(
                MemoryNode(
                    name="own",
                    bytes=int(30.10 * GIB),
                    quality="derived",
                    children=(
                        MemoryNode(name="weights", bytes=int(15.62 * GIB), quality="measured"),
                        MemoryNode(name="kv_pool", bytes=int(2.97 * GIB), quality="measured"),
                        MemoryNode(name="graph_pool", bytes=int(0.46 * GIB), quality="estimated", note="before capture"),
                        MemoryNode(name="unexplained", bytes=12 * MIB, quality="derived", note=HOSTILE),
                    ),
                ),
                MemoryNode(name="others", bytes=None, note="no process list in the log"),
                MemoryNode(name="free", bytes=771 * MIB, quality="measured"),
            ),
        ),
        cohort_at_oom=Cohort(running_requests=1, waiting_requests=0, scheduled_tokens=8192, kv_usage_ratio=0.125),
        allocator_at_oom=AllocatorState(
            requested_bytes=786 * MIB, device_free_bytes=771 * MIB, cached_free_bytes=0, fits_in_cache=False
        ),
        remedies=[
            Remedy(
                when="now",
                action="Promise the engine less of the device, and start it again.",
                setting="--gpu-memory-utilization 0.97",
                frees_bytes=321 * MIB,
                short_bytes=15 * MIB,
                arithmetic="0.01 x 31.36 GiB = 321.13 MiB",
            ),
            Remedy(
                when="change",
                action="Capture fewer graph shapes.",
                setting="--max-num-seqs `nproc`",
                frees_bytes=200 * MIB,
                quality="estimated",
            ),
        ],
        cascade=Cascade(failures=2, ranks=("EngineCore_DP0", "APIServer"), lines=(35, 41)),
    )


def undetermined(number: int = 1) -> Incident:
    return Incident(
        id=f"engine.log-{number}",
        verdict=None,
        oom_class=None,
        code=None,
        resource="host",
        confidence=0.4,
        survived=None,
        summary=f"Process {number} was killed, and nothing says by whom.",
        missing=[Missing(what="the kernel's word", collector="host", command="dmesg -T | grep -i oom")],
    )


READ = Input(path="engine.log", format="log", bytes=5402, lines=33, rows=61, engines=("vllm",))


def one() -> Triage:
    return Triage(inputs=[READ], incidents=[warm_up()])


def many() -> Triage:
    return Triage(inputs=[READ], incidents=[warm_up(), *(undetermined(number) for number in range(2, 6))])


def none() -> Triage:
    other = Input(path="empty.parquet", format="parquet", bytes=900, rows=0)
    unknown = Input(path="x\x1b[31m.log", format="log", bytes=20, lines=1, rows=0)
    return Triage(inputs=[READ, other, unknown], incidents=[])
