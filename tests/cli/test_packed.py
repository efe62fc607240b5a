"""Logs as they are kept: compressed, in a tar, in UTF-16; and archives that are damaged, hostile or too deep."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.cli.recordings import recording
from tests.cli.run import oomctl
from tests.cli.test_triage import FAILURE, LOG

TEXT = (LOG + FAILURE).encode()


def tar(entries: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def gzipped(data: bytes, layers: int) -> bytes:
    return data if layers == 0 else gzipped(gzip.compress(data), layers - 1)


PACKED = {
    "a.log.gz": gzip.compress(TEXT),
    "a.log.zst": zstandard.ZstdCompressor().compress(TEXT),
    "a.log.xz": lzma.compress(TEXT),
    "a.log.bz2": bz2.compress(TEXT),
    "a.log.gz.gz": gzipped(TEXT, 2),
    "utf16.log": b"\xff\xfe" + TEXT.decode().encode("utf-16-le"),
    "a.tar": tar({"w.log": TEXT}),
    "a.tar.gz": gzip.compress(tar({"w.log": TEXT})),
    "inner.tar": tar({"w.log": gzip.compress(TEXT)}),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_log_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PACKED[name])
    ran = oomctl("triage", name, "--json", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    member = f"{name}:w.log" if ".tar" in name else name
    lines = len(TEXT.splitlines())
    assert [(entry["path"], entry["format"], entry["lines"]) for entry in document["inputs"]] == [(member, "log", lines)]
    assert document["incidents"][0]["class"] == "warm_up"
    assert document["incidents"][0]["evidence"][0]["cites"][0]["stream"] == member


def test_packed_log_through_a_pipe_and_in_a_folder(tmp_path: Path) -> None:
    assert oomctl("triage", "-", "--fail-on", "warm_up", stdin=PACKED["a.tar.gz"]).code == 1
    (tmp_path / "w.log").write_text(LOG)
    (tmp_path / "v.log.gz").write_bytes(PACKED["a.log.gz"])
    ran = oomctl("triage", ".", "--json", cwd=tmp_path)
    assert [entry["path"] for entry in json.loads(ran.out)["inputs"]] == ["v.log.gz", "w.log"]


def test_packed_recording(tmp_path: Path) -> None:
    data = recording(tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar({"b.parquet": data, "w.log": TEXT})))
    ran = oomctl("triage", "a.tar.gz", "--json", cwd=tmp_path)
    assert ran.err == ""
    assert [entry["format"] for entry in json.loads(ran.out)["inputs"]] == ["parquet", "log"]


def test_cut_off_log_keeps_what_it_had(tmp_path: Path) -> None:
    noise = b"".join(b"line %d %s\n" % (number, os.urandom(20).hex().encode()) for number in range(9999))
    data = gzip.compress(LOG.encode() + noise)
    (tmp_path / "a.log.gz").write_bytes(data[: len(data) // 2])
    ran = oomctl("triage", "a.log.gz", "--json", cwd=tmp_path)
    assert ran.code == 0
    assert ran.err.startswith("oomctl: warning: a.log.gz: damaged or cut off: ")
    assert ran.err.endswith("; read what came before\n") and ran.err.count("\n") == 1
    assert json.loads(ran.out)["inputs"][0]["engines"] == ["vllm"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_cut_off_tar_keeps_what_it_had(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = pack(tar({"1.log": TEXT, "2.log": os.urandom(50_000).hex().encode()}))
    (tmp_path / "a.tar.gz").write_bytes(data[: len(data) // 2])
    ran = oomctl("triage", "a.tar.gz", "--fail-on", "warm_up", cwd=tmp_path)
    assert ran.code == 1
    assert ran.err.count("warning") == 1 and "damaged or cut off" in ran.err


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8b\x08rest", gzip.compress(TEXT)[:12], b"BZh9rest", b"\x28\xb5\x2f\xfd" + b"\xff" * 20],
    ids=["no_gzip", "gzip_header", "no_bzip2", "no_zstd"],
)
def test_archive_that_yields_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    oomctl("triage", "a", cwd=tmp_path).assert_fails(3, "damaged or cut off", "(a)")


def test_packed_too_deep(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzipped(TEXT, 7))
    oomctl("triage", "a.gz", cwd=tmp_path).assert_fails(3, "packed more than 4 times (a.gz)")


def test_tar_is_never_extracted(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, kind in (("d", tarfile.DIRTYPE), ("l", tarfile.SYMTYPE), ("z", tarfile.CHRTYPE), ("p", tarfile.FIFOTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.linkname = "/etc/passwd" if name == "l" else ""
            archive.addfile(entry)
        for name, content in (("../../evil", TEXT), ("core", bytes(range(256)) * 40)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    ran = oomctl("triage", "a.tar", "--json", cwd=folder)
    assert ran.code == 0
    assert [entry["path"] for entry in json.loads(ran.out)["inputs"]] == ["a.tar:../../evil"]
    assert ran.err.startswith("oomctl: warning: not a text log (a.tar:core)\nhint: ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / "a.tar"]


def test_archive_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"empty": b""}))
    oomctl("triage", "a.tar", cwd=tmp_path).assert_fails(3, "no files in archive (a.tar)")


def test_zeros_are_no_log_and_take_no_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(bytes(2**20))
    probe = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done.returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, sys.executable, "-m", "oomctl", "triage", "bomb.gz"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("oomctl: error: no text in the first 256 MiB (bomb.gz)\n")
    assert int(done.stdout) < 200 * 1024


def test_log_with_a_hole_before_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(bytes(100_000) + TEXT)
    ran = oomctl("triage", "a.log", "--json", cwd=tmp_path)
    entry = json.loads(ran.out)["inputs"][0]
    assert (entry["bytes"], entry["lines"]) == (100_000 + len(TEXT), len(TEXT.splitlines()))


def zipped(entries: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize("where", ["file", "pipe", "tar", "gzip"])
def test_zip_of_logs(tmp_path: Path, where: str) -> None:
    data = zipped({"pod/": b"", "pod/w.log": TEXT, "pod/x.log.gz": PACKED["a.log.gz"], "core": bytes(range(256)) * 40})
    (tmp_path / "a.zip").write_bytes(gzip.compress(data) if where == "gzip" else data)
    (tmp_path / "a.tar").write_bytes(tar({"a.zip": data}))
    given = {"file": "a.zip", "pipe": "-", "tar": "a.tar", "gzip": "a.zip"}[where]
    name = {"pipe": "stdin", "tar": "a.tar:a.zip"}.get(where, "a.zip")
    ran = oomctl("triage", given, "--json", cwd=tmp_path, stdin=data if where == "pipe" else b"")
    assert ran.code == 0
    assert [entry["path"] for entry in json.loads(ran.out)["inputs"]] == [f"{name}:pod/w.log", f"{name}:pod/x.log.gz"]
    assert ran.err.startswith(f"oomctl: warning: not a text log ({name}:core)\n")
    assert [path.name for path in tmp_path.iterdir()] == [path.name for path in tmp_path.glob("a.*")]


def test_zips_that_are_damaged_or_hostile(tmp_path: Path) -> None:
    data = zipped({"w.log": TEXT}, zipfile.ZIP_STORED)

    def fails(content: bytes, said: str) -> None:
        (tmp_path / "a.zip").write_bytes(content)
        oomctl("triage", "a.zip", cwd=tmp_path).assert_fails(3, said)

    fails(data[:-30], "damaged or cut off: ")
    fails(data.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"), "encrypted (a.zip:w.log)")
    end = data.rindex(b"PK\x05\x06")
    fails(data[: end + 12] + b"\xff\xff\xff\x7f" + data[end + 16 :], "too many files in one zip (a.zip)")
    (tmp_path / "a.zip").write_bytes(data.replace(b"CUDA out of memory", b"CUDA out_of memory"))
    assert "damaged or cut off: Bad CRC-32" in oomctl("triage", "a.zip", cwd=tmp_path).err
    (tmp_path / "x.docx").write_bytes(zipped({"w.log": TEXT, "y.log": os.urandom(9999)}))
    oomctl("triage", "x.docx", cwd=tmp_path).assert_fails(3, "not a text log (x.docx)")
