"""A checkpoint on disk: the tensors that its headers list, never the tensors themselves.

The files come from strangers. Every length is bounded before it is used, names lead nowhere outside the folder, and a
damaged header is one error.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from oomctl.schemas.errors import OomctlError

MOST_HEADER, MOST_INDEX, MOST_FILES, MOST_DIMENSIONS = 100 * 10**6, 256 * 2**20, 4096, 8
"""100 MB is the format's own limit of a header. Source: safetensors, src/tensor.rs, MAX_HEADER_SIZE."""
INDEX = "model.safetensors.index.json"
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What lies on disk."""

    format: str
    files: tuple[int, ...]
    """Bytes of each file."""
    tensors: Mapping[str, int] | None
    """Bytes of each tensor; None where only an index was there, without the files."""
    tensor_bytes: int
    """Of all tensors together."""
    weights: Mapping[str, int] | None = None
    """Weights of each tensor, where they are packed by type."""

    @property
    def file_bytes(self) -> int:
        """Of all files together, headers and alignment with them."""
        return sum(self.files)


def read_checkpoint(path: Path) -> Checkpoint:
    """A safetensors file or index, a GGUF file, or the folder of either.

    Raises:
        OomctlError: It is none of them, or its headers cannot be believed.
    """
    if path.is_dir():
        return _folder(path)
    if path.name.endswith(".index.json"):
        return _indexed(path)
    with _opened(path) as file:
        if file.read(4) == b"GGUF":
            from oomctl.analyzers.ledger.gguf import read_gguf

            return read_gguf(path)
    return _of([path])


def _folder(path: Path) -> Checkpoint:
    if (path / INDEX).is_file():
        return _indexed(path / INDEX)
    for pattern in ("*.safetensors", "*.gguf"):
        files = sorted(file for file in path.glob(pattern) if file.is_file())
        if pattern == "*.gguf" and len(files) == 1:
            return read_checkpoint(files[0])
        if files and pattern == "*.safetensors":
            return _of(files)
    raise OomctlError(f"no safetensors and no single GGUF file in it ({path})")


def _indexed(path: Path) -> Checkpoint:
    """The files that an index names, where they lie beside it; else what the index alone tells."""
    index = _json(_bounded(path), path)
    names = index.get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise OomctlError(f"weight_map is missing ({path})", "is it a model.safetensors.index.json?")
    files = sorted(set(names.values()))
    if len(files) > MOST_FILES:
        raise OomctlError(f"it names {len(files)} files, more than any checkpoint has ({path})")
    for name in files:
        if Path(name).name != name or name in ("", ".", ".."):
            raise OomctlError(f"it names a file outside its folder: {name[:60]} ({path})")
    there = [path.parent / name for name in files if (path.parent / name).is_file()]
    if len(there) == len(files):
        return _of(there)
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 2**60:
        raise OomctlError(f"neither its files nor metadata.total_size are there ({path})")
    return Checkpoint(format="safetensors index", files=(), tensors=None, tensor_bytes=total)


def _of(files: list[Path]) -> Checkpoint:
    if len(files) > MOST_FILES:
        raise OomctlError(f"{len(files)} files are more than any checkpoint has ({files[0].parent})")
    tensors: dict[str, int] = {}
    for file in files:
        tensors |= _header(file)
    return Checkpoint(
        format="safetensors",
        files=tuple(file.stat().st_size for file in files),
        tensors=tensors,
        tensor_bytes=sum(tensors.values()),
    )


def _header(path: Path) -> dict[str, int]:
    """Bytes of each tensor of a safetensors file: 8 bytes of length, a JSON object, then the data."""
    size = path.stat().st_size
    with _opened(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > MOST_HEADER or 8 + length > size:
            raise OomctlError(f"no safetensors file, or cut off ({path})")
        header = _json(file.read(length), path)
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            found[name] = _tensor(entry, size - 8 - length, path)
    return found


def _tensor(entry: Any, available: int, path: Path) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(one) is int for one in offsets):
        raise OomctlError(f"a tensor has no data_offsets ({path})")
    start, end = offsets
    if not 0 <= start <= end <= available:
        raise OomctlError(f"a tensor lies outside its file ({path})")
    shape, dtype = entry.get("shape"), entry.get("dtype")
    if (
        not isinstance(shape, list)
        or len(shape) > MOST_DIMENSIONS
        or not all(type(one) is int and one >= 0 for one in shape)
    ):
        raise OomctlError(f"a tensor has no shape ({path})")
    bits = _BITS.get(dtype) if isinstance(dtype, str) else None
    count = 1
    for one in shape:
        count *= one
    if bits is not None and -(-count * bits // 8) != end - start:
        raise OomctlError(f"a tensor's shape and size do not fit each other ({path})")
    return int(end - start)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise OomctlError(f"{(error.strerror or str(error)).lower()} ({path})") from None


def _bounded(path: Path) -> bytes:
    with _opened(path) as file:
        data = file.read(MOST_INDEX + 1)
    if len(data) > MOST_INDEX:
        raise OomctlError(f"too large for an index ({path})")
    return data


def _json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise OomctlError(f"its header is no JSON: {str(error)[:80]} ({path})") from None
    if not isinstance(found, dict):
        raise OomctlError(f"its header is no JSON object ({path})")
    return found
