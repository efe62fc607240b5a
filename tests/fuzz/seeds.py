"""Where each target begins: small good inputs of every form, made by the generators that the other tests use."""

import gzip
import io
import json
import pickle
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from oomctl.collectors.agent.kinds import REQUEST
from oomctl.collectors.recorder.live import Frame, LiveWriter
from oomctl.collectors.recorder.slots import kept
from oomctl.schemas import storage, text_forms
from oomctl.schemas.version import SCHEMA_VERSION, VERSION_KEY
from tests.agent.rings import make_rings, write_step, write_text
from tests.allocator.causes import PAIRS
from tests.allocator.layouts import FORMS, LAYOUTS, laid_out
from tests.capacity.test_request_logs import META, NO_LORA, PARAMS, VLLM
from tests.capacity.test_traces import mooncake, session, turn
from tests.cli.recordings import rows
from tests.live.test_kv_events import stored
from tests.live.test_otlp_receiver import NEW, OLD, TOOL, export
from tests.live.test_trtllm_json import RECORD
from tests.recorder.stand_in import write
from tests.recorder.test_live import header
from tests.scenarios.families import fixtures, render
from tests.scenarios.log import render_log

PAGES = Path(__file__).parents[1] / "live" / "pages"
RULES = Path(__file__).parents[2] / "analyzers" / "capacity" / "cohorts.toml"
MAX_LOG_BYTES = 3_000
"""The end of a log: its failure. What stands before it is more of the same, and an input costs by its length."""


def logs() -> Iterator[bytes]:
    """One story after the other, a family each; and the engine's own forms of a rank, a kill and a storm."""
    seen: set[tuple[str, str]] = set()
    for fixture in fixtures():
        family, _, rest = fixture.name.partition("/")
        if (family, rest[:4]) not in seen:
            seen.add((family, rest[:4]))
            yield render(fixture).encode()[-MAX_LOG_BYTES:]
    for name in ("decode_preemption_storm", "host_kill_kernel", "gate_start_memory", "recovery_update_weights"):
        yield render_log(name, ranks=2, filler_lines=3).encode()[-MAX_LOG_BYTES:]


def snapshots() -> Iterator[bytes]:
    """Each layout in each form of file."""
    document = PAIRS["fragmentation"][0]().run.document()
    document["device_traces"] = [trace[-6:] for trace in document["device_traces"]]
    document["segments"] = document["segments"][:3]
    for layout, form in zip(LAYOUTS, [*FORMS] * len(LAYOUTS), strict=False):
        yield FORMS[form](laid_out(document, layout))
    yield pickle.dumps({"segments": [], "device_traces": [[]]})


def pages() -> Iterator[bytes]:
    """A page of each engine."""
    return (path.read_bytes()[:8_000] for path in sorted(PAGES.glob("*.txt")))


def iterations() -> Iterator[bytes]:
    """TensorRT-LLM's statistics."""
    yield json.dumps([RECORD, RECORD | {"iter": 8}]).encode()


def spans_protobuf() -> Iterator[bytes]:
    """Names of before and after the conventions, and a tool's pause."""
    for told in ((OLD,), (NEW,), (OLD, NEW, TOOL)):
        yield export(*told).SerializeToString()


def spans_json() -> Iterator[bytes]:
    """The same as JSON."""
    from google.protobuf.json_format import MessageToJson

    for told in ((OLD,), (NEW,), (OLD, NEW, TOOL)):
        yield MessageToJson(export(*told), indent=None).encode()


def kv_messages() -> Iterator[bytes]:
    """The three forms on the wire, with a removal and a clearing."""
    for form in ("arrays", "maps", "map of maps"):
        yield stored(form, 1, -1, 2**63)
    yield msgspec.msgpack.encode([1.5e9, [["BlockRemoved", [1], "CPU"], ["AllBlocksCleared"]], 0])


def kv_json() -> Iterator[bytes]:
    """TensorRT-LLM's events and Dynamo's."""
    block = {"type": "stored_block", "block_hash": 3, "tokens": [{"token_id": 7}] * 4, "cache_level": 1}
    moved = {"type": "updated", "block_hash": "-3", "cache_level": {"old_value": 0, "new_value": 1}}
    yield json.dumps(
        [
            {"event_id": 1, "data": {"type": "stored", "parent_hash": 2, "blocks": [block]}, "attention_dp_rank": 4},
            {"event_id": 2, "data": moved},
            {"event_id": 4, "data": {"type": "removed", "block_hashes": [3, "17"]}},
            {"worker_id": 1, "event": {"event_id": 5, "data": {"stored": {"parent_hash": 1, "blocks": [block]}}}},
        ]
    ).encode()


def rings() -> Iterator[bytes]:
    """A ring that went round, with texts over several slots, and one with requests."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_rings(Path(folder))
        ring = made.mine()
        for step in range(20):
            write_step(ring, step)
        write_text(ring, "x" * 300)
        write(ring, REQUEST, event="blocks_changed", request_id="r", kv_blocks=3, sample_weight=2.0)
        made.close()
        for path in sorted(Path(folder).glob("*.ring")):
            yield path.read_bytes()


def live_files() -> Iterator[bytes]:
    """Rows, and records of a ring as they lie."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.live"
        writer = LiveWriter(path, header())
        for frame in _frames():
            writer.append(frame)
        writer.close()
        yield path.read_bytes()


def live_payloads() -> Iterator[bytes]:
    """What a frame holds."""
    return (msgspec.msgpack.encode(frame) for frame in _frames())


def _frames() -> list[Frame]:
    ring = next(rings())
    slots = ring[4096 + 128 * 3 : 4096 + 128 * 8]
    return [
        Frame(rows=rows("a", 2), at={"ring:x": [1, 2, 3]}),
        Frame(slots=[kept({"stream": "n/x", "source": "agent", "quality": "measured"}, 7, slots)]),
    ]


def parquet_files() -> Iterator[bytes]:
    """A small recording, without what makes 30 KB of a footer: the columns that its rows leave NULL."""
    columns = "kind, stream, seq, line, ts, ts_quality, device_id, source, worker"
    with tempfile.TemporaryDirectory() as folder, storage.connect() as connection:
        storage.load_rows(connection, rows("a.log"))
        for number, packed in enumerate(("snappy", "zstd")):
            path = Path(folder) / str(number)
            form = f"FORMAT parquet, COMPRESSION {packed}, KV_METADATA {{'{VERSION_KEY}': '{SCHEMA_VERSION}'}}"
            connection.execute(f"COPY (SELECT {columns}, log FROM events) TO '{path}' ({form})")
            yield path.read_bytes()


def rules() -> Iterator[bytes]:
    """The default cohorts, and every form of a condition."""
    yield RULES.read_bytes()
    yield b'[[cohorts]]\nname = "a"\ntenant = ["a*", "b.c d"]\nagent = true\nprompt_tokens = {min = 1, max = 2.5}\n'


def configs() -> Iterator[bytes]:
    """Every type of a value."""
    yield b'[attach]\nbudget = "4GiB"\nminutes = 5.5\nkv-events = ["tcp://127.0.0.1:1"]\n[a.b]\nc = true\n'


def traces() -> Iterator[bytes]:
    """Each published form, and engines' own logs of requests."""
    for told in ([mooncake(0, 600, [0, 1]), mooncake(1500, 1025, [0, 2, 3], chat_id=1, parent_chat_id=-1)],):
        yield "".join(f"{json.dumps(line)}\n" for line in told).encode()
    yield json.dumps(session("s", [turn(0, 130, [1, 2]), turn(5, 190, [1, 2, 3]), turn(9, 64, [1])])).encode()
    yield b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.0099300,4808,10\n2024-05-10 00:00:01,3180,8\n"
    yield b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,a\n45,GPT-4,1,0,1,b"
    line = VLLM.format(at=1) + "Received request cmpl-a-0: prompt: None, " + PARAMS.format(most=16)
    yield (line + "prompt_token_ids: [1, 2, 3], " + NO_LORA + "\n").encode()
    yield f"[2026-03-14 15:12:05 TP0] Finish: obj=GenerateReqInput(rid='r1'), out={{{META}}}\n".encode()


def inputs() -> Iterator[bytes]:
    """What only the door takes: tables as text, spans a line, archives, other encodings."""
    log = next(logs())
    with tempfile.TemporaryDirectory() as folder, storage.connect() as connection:
        storage.load_rows(connection, rows("a.log"))
        text_forms.write_jsonl(connection, Path(folder) / "a")
        yield (Path(folder) / "a").read_bytes()
        text_forms.write_csv(connection, Path(folder) / "b")
        yield (Path(folder) / "b").read_bytes()
    yield from spans_json()
    yield from live_files()
    yield gzip.compress(log, mtime=0)
    yield log.decode().encode("utf-16")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("a.log")
        entry.size = len(log)
        archive.addfile(entry, io.BytesIO(log))
    yield packed.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr(zipfile.ZipInfo("a.log"), log)
    yield packed.getvalue()


def texts() -> Iterator[bytes]:
    """Lines with every kind of name that is hidden."""
    yield (
        b"host=gpu-7.acme.example user: jane@acme.example model='acme/otter-9b' tenant=blue http://u:p@10.2.3.4:80/x?y=z\n"
        b"/home/jane/models/otter-9b fe80::1ff:fe23:4567:890a 02:42:ac:11:00:02 3f2b8c1e-1111-4222-8333-123456789abc\n"
        b"acme-pod-7d9f:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n  Namespace:    acme-serving\n"
    )
    yield from (log[-1_000:] for log in list(logs())[:4])
