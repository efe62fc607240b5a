"""Headers of checkpoints, honest and hostile."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.ledger.checkpoint import INDEX, read_checkpoint
from oomctl.schemas.errors import OomctlError
from tests.cli.run import oomctl
from tests.ledger import configs


def safetensors(header: Any, data: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def tensor(start: int, end: int, shape: list[int], dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


GOOD = {"__metadata__": {"format": "pt"}, "a": tensor(0, 64, [4, 8]), "b": tensor(64, 72, [2], "F32")}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors: list[tuple[str, tuple[int, ...], int]], data: int, version: int = 3) -> bytes:
    found = b"GGUF" + struct.pack("<IQQ", version, len(tensors), 2)
    found += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    found += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("y")
    for name, shape, kind in tensors:
        found += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        found += struct.pack("<IQ", kind, 0)
    return found + bytes(data)


def test_a_safetensors_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(GOOD, 72))
    found = read_checkpoint(file)
    assert (found.tensors, found.tensor_bytes) == ({"a": 64, "b": 8}, 72)
    assert found.file_bytes == file.stat().st_size
    assert read_checkpoint(tmp_path) == found


def test_an_index_and_its_files(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 144}, "weight_map": {"a": "1.safetensors", "c": "2.safetensors"}}
    (tmp_path / INDEX).write_text(json.dumps(index))
    alone = read_checkpoint(tmp_path)
    assert (alone.tensors, alone.tensor_bytes) == (None, 144)
    (tmp_path / "1.safetensors").write_bytes(safetensors(GOOD, 72))
    (tmp_path / "2.safetensors").write_bytes(safetensors({"c": tensor(0, 64, [4, 8])}, 64))
    assert read_checkpoint(tmp_path / INDEX).tensor_bytes == 136


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/passwd", "sub/1.safetensors", "..", ""], ids=lambda name: name or "empty"
)
def test_an_index_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": {"a": name}}))
    with pytest.raises(OomctlError, match="outside its folder"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little"),
        safetensors(b"not json"),
        safetensors([1]),
        safetensors({"a": 1}),
        safetensors({"a": tensor(0, 64, [4, 8])}, 63),
        safetensors({"a": tensor(8, 0, [0])}, 64),
        safetensors({"a": tensor(-8, 0, [4])}, 64),
        safetensors({"a": tensor(0, 64, [4, 9])}, 64),
        safetensors({"a": tensor(0, 64, [2**62, 2**62])}, 64),
        safetensors({"a": {"dtype": "BF16", "shape": [True], "data_offsets": [0, True]}}, 64),
        safetensors(b"[" * 100_000),
    ],
    ids=range(13),
)
def test_a_hostile_header_is_one_error(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    with pytest.raises(OomctlError) as error:
        read_checkpoint(file)
    assert "\n" not in error.value.what


def test_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf([("a", (512, 4), 12), ("b", (16,), 0)], 4096))
    found = read_checkpoint(file)
    assert found.tensors == {"a": 512 * 4 // 256 * 144, "b": 64}
    assert found.format == "GGUF Q4_K"
    assert read_checkpoint(tmp_path) == found


@pytest.mark.parametrize(
    "data",
    [
        b"GGUF",
        gguf([], 0, version=9),
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 4, 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1) * 6,
        gguf([("a", (1 << 62, 1 << 62), 0)], 16),
        gguf([("a", (256,), 99)], 4096),
    ],
    ids=range(8),
)
def test_a_hostile_gguf_header_is_one_error(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(data)
    with pytest.raises(OomctlError):
        read_checkpoint(file)


@given(st.binary(max_size=200))
def test_anything_else_is_an_error_or_is_read(data: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        for head in (b"", b"GGUF" + struct.pack("<IQQ", 3, 1, 1), len(data).to_bytes(8, "little")):
            file = Path(folder) / "model"
            file.write_bytes(head + data)
            try:
                read_checkpoint(file)
            except OomctlError as error:
                assert error.what


def test_what_lies_on_disk_is_measured_and_compared_with_the_config(tmp_path: Path) -> None:
    config = configs.write(tmp_path, configs.DENSE)
    (tmp_path / "model.safetensors").write_bytes(safetensors(GOOD, 72))
    ledger = predict(ModelShape.from_config(config), Engine(), None, read_checkpoint(tmp_path))
    disk = next(entry for entry in ledger.entries if entry.place == "disk")
    assert (disk.bytes, disk.quality) == ((tmp_path / "model.safetensors").stat().st_size, "measured")
    assert any("the checkpoint holds 72 B" in note for note in ledger.notes)
    host = next(entry for entry in ledger.entries if entry.place == "host")
    assert host.bytes == 64


def test_the_command_reads_what_lies_beside_the_config(tmp_path: Path) -> None:
    config = configs.write(tmp_path, configs.DENSE)
    (tmp_path / "model.safetensors").write_bytes(safetensors(GOOD, 72))
    assert "the checkpoint holds" in oomctl("ledger", "predict", str(tmp_path)).out
    assert "the checkpoint holds" not in oomctl("ledger", "predict", str(config)).out
    wrong = oomctl("ledger", "predict", str(config), "--checkpoint", str(config))
    wrong.assert_fails(3, "safetensors")


def whole(layers: int = 4, hidden: int = 256, wide: int = 512, words: int = 1024) -> list[tuple[str, tuple[int, ...], int]]:
    """Tensors of configs.DENSE as a mixture of types, with a vocabulary that needs no padding."""
    found: list[tuple[str, tuple[int, ...], int]] = [("token_embd.weight", (hidden, words), 14)]
    for index in range(layers):
        kinds = {
            "attn_q": (hidden, 12),
            "attn_k": (64, 12),
            "attn_v": (64, 14),
            "ffn_gate": (wide, 12),
            "ffn_up": (wide, 13),
        }
        found += [(f"blk.{index}.{name}.weight", (hidden, out), kind) for name, (out, kind) in kinds.items()]
        found.append((f"blk.{index}.attn_output.weight", (hidden, hidden), 12))
        found.append((f"blk.{index}.ffn_down.weight", (wide, hidden), 14 if index % 2 else 12))
    return [*found, ("output.weight", (hidden, words), 14)]


def test_weights_of_a_gguf_file_are_as_packed_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    tensors = whole()
    file.write_bytes(gguf(tensors, 4 * 2**20))
    checkpoint = read_checkpoint(file)
    shape = ModelShape.from_config(configs.write(tmp_path, configs.DENSE | {"vocab_size": 1024}))
    ledger = predict(shape, Engine(), None, checkpoint)
    others = ("norm", "rotary", "allocator rounding")
    held = sum(
        entry.bytes or 0
        for entry in ledger.entries
        if entry.component == "weights" and entry.counts and entry.owner not in others
    )
    assert held == pytest.approx(checkpoint.tensor_bytes, abs=64)
    assert ledger.weight_format == "GGUF Q4_K"
    halved = predict(shape, Engine(tensor_parallel=2), None, checkpoint)
    mlp = {one.owner: one.bytes for one in halved.entries if one.counts}["mlp"]
    assert (mlp or 0) * 2 == pytest.approx(sum(e.bytes or 0 for e in ledger.entries if e.owner == "mlp"), abs=64)
