"""Tables of nvidia-smi, DCGM and rocm-smi, and telemetry pasted as CSV; made up for these tests."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from oomctl.schemas.rows import Row
from tests.logs.reading import of_kind, read
from tests.logs.samples import VLLM

MIB, GIB = 2**20, 2**30

SMI_535 = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA L40S                    On  | 00000000:3B:00.0 Off |                    0 |
| N/A   41C    P0              87W / 350W |  40012MiB / 46068MiB |     12%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA L40S                    On  | 00000000:5E:00.0 Off |                    0 |
| N/A   33C    P8              31W / 350W |      3MiB / 46068MiB |      0%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0   N/A  N/A      4121      C   VLLM::EngineCore                          39998MiB |
+---------------------------------------------------------------------------------------+
"""
SMI_418 = SMI_535.replace("|    0   N/A  N/A      4121", "|    0      4121").replace("535.104.05", "418.87.01 ")


@pytest.mark.parametrize("table", [SMI_535, SMI_418])
@pytest.mark.parametrize("prefix", ["", "Mar 14 15:12:11 gpu-07 watch[9]: "])
@pytest.mark.parametrize("engine", ["", VLLM])
def test_nvidia_smi(table: str, prefix: str, engine: str) -> None:
    rows = read(engine + "".join(f"{prefix}{line}\n" for line in table.splitlines()))
    half = MIB // 2
    assert devices(rows) == [
        (0, {"used_bytes": 40012 * MIB, "total_bytes": 46068 * MIB, "resolution_bytes": half}),
        (1, {"used_bytes": 3 * MIB, "total_bytes": 46068 * MIB, "resolution_bytes": half}),
    ]
    process = next(row for row in rows if row["kind"] == "process" and row["process"]["pid"] == 4121)
    assert process["process"] == {
        "pid": 4121,
        "name": "VLLM::EngineCore",
        "used_bytes": 39998 * MIB,
        "resolution_bytes": half,
    }
    assert process["device_id"] == 0


def devices(rows: list[Row]) -> list[tuple[int | None, dict[str, int]]]:
    """(device index, fields) of what the drivers' tools reported."""
    return [(row.get("device_id"), row["device"]) for row in rows if row["kind"] == "device" and "device_id" in row]


def test_query_gpu() -> None:
    rows = read("index, memory.used [MiB], memory.total [MiB]\n0, 14 MiB, 24564 MiB\n1, 20000 MiB, 24564 MiB\n")
    assert [(index, fields["used_bytes"], fields["total_bytes"]) for index, fields in devices(rows)] == [
        (0, 14 * MIB, 24564 * MIB), (1, 20000 * MIB, 24564 * MIB),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "log",
    [
        "pid, process_name, used_gpu_memory [MiB]\n4121, /usr/bin/python3, 61234 MiB\n",
        "gpu_uuid, pid, process_name, used_memory [MiB]\nGPU-1f, 4121, /usr/bin/python3, 61234 MiB\n",
        "pid, used_gpu_memory [MiB], process_name\n4121, 61234 MiB, /usr/bin/python3\n",
        "pid, name, used_memory [MiB]\n4121, /usr/bin/python3, 61234\n",
    ],
)
def test_query_compute_apps_in_any_order(log: str) -> None:
    (fields,) = of_kind(read(log), "process")
    assert (fields["pid"], fields["name"], fields["used_bytes"]) == (4121, "/usr/bin/python3", 61234 * MIB)


@pytest.mark.parametrize(
    ("heading", "row", "total", "free"),
    [
        ("ts,mem_used_gb,mem_total_gb", "13:32:10,60.5,64.0", 64 * 10**9, 35 * 10**8),
        ("time,host_mem_total_mib,host_mem_free_mib", "8,65536,1024", 64 * GIB, GIB),
        ("timestamp, memory_used_bytes, memory_total_bytes", "9, 1000, 4000", 4000, 3000),
        ("ts,node_memory_used_gib,node_memory_limit_gib", "9,1,4", 4 * GIB, 3 * GIB),
    ],
)
def test_telemetry_of_the_host(heading: str, row: str, total: int, free: int) -> None:
    for before in ("", "# ", "--- /var/log/x.csv (", "columns: "):
        after = ")" if before.endswith("(") else ""
        assert of_kind(read(f"{before}{heading}{after}\n{row}\n"), "host") == [{"total_bytes": total, "free_bytes": free}]


def test_telemetry_ends_where_its_rows_end() -> None:
    log = "ts,mem_used_gb,mem_total_gb\n1,60,64\nsomething else\nand more\n9,61,64\n"
    assert len(of_kind(read(log), "host")) == 1


@pytest.mark.parametrize(
    "log",
    [
        "a,b,c\n1,2,3\n",
        "prompt, memory, used\n1,2,3\n",
        "args: max_mem=8, used_total=9\n",
        "loaded, total_tokens=5 used=7 free=2\n",
    ],
)
def test_ordinary_lists_are_no_telemetry(log: str) -> None:
    assert of_kind(read(log), "host", "device", "process") == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("#Entity   FBTTL   FBUSD\nID\nGPU 0     46068   40012\nGPU 1     46068   3\n", [(0, 40012), (1, 3)]),
        ("# gpu     fb   bar1   ccpm\n# Idx     MB     MB     MB\n    0  40012      9      0\n    1      3      9      0\n", [(0, 40012), (1, 3)]),
        ('# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1"} 40012\nDCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-2"} 3\n', [(0, 40012), (1, 3)]),
        ("dcgm gpu=0 fb_used_mib=40012 fb_total_mib=46068\ndcgm gpu=1 fb_used_mib=3 fb_total_mib=46068\n", [(0, 40012), (1, 3)]),
        ("GPU[0]\t\t: VRAM Total Memory (B): 48305799168\nGPU[0]\t\t: VRAM Total Used Memory (B): 41955622912\n", [(0, None), (0, 40012)]),
    ],
)  # fmt: skip
def test_other_monitors(log: str, expected: list[tuple[int, int | None]]) -> None:
    found = [(index, fields.get("used_bytes")) for index, fields in devices(read(log))]
    assert found == [(index, None if used is None else used * MIB) for index, used in expected]


def test_figures_that_are_no_numbers_are_none() -> None:
    """GIVEN monitors' columns with digits that `int` does not take, or that no table holds THEN no row tells them."""
    heading = "# gpu         pid   type     fb   command\n# Idx           #    C/G     MB   name\n"
    for cell in ("\u00b2", "9" * 400, "9" * 17):
        (row,) = of_kind(read(f"{heading}    0       4711     C  {cell}   python3\n"), "process")
        assert "used_bytes" not in row or row["used_bytes"] is None


def test_pmon_and_rocm_processes() -> None:
    log = "# gpu        pid  type    fb   command\n# Idx          #   C/G    MB   name\n    0       4121     C 40012   python3\n    1          -     -     -   -\n"
    assert [(f["pid"], f["name"], f["used_bytes"]) for f in of_kind(read(log), "process")] == [
        (4121, "python3", 40012 * MIB)
    ]
    log = "PID\tPROCESS NAME\tGPU(s)\tVRAM USED\tSDMA USED\tCU OCCUPANCY\n4121\tpython3\t1\t41955622912\t0\t0\n"
    assert [(f["pid"], f["used_bytes"]) for f in of_kind(read(log), "process")] == [(4121, 41955622912)]
