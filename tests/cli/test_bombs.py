"""Hostile inputs of the real command: one clear line or a counted skip, and memory under 400 MB, whatever is given."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from oomctl.collectors.artifacts.streams import PIECE_BYTES
from tests.cli.run import Ran
from tests.cli.test_packed import TEXT, gzipped, tar

MIB = 2**20
MAX_KIB = 400_000
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB.\n"
BYTES = bytes(range(256)) * 99
PROBE = (
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(done.returncode)"
)


def bounded(*arguments: str, cwd: Path) -> Ran:
    """`oomctl ARGUMENTS`, which may take no more than MAX_KIB."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, sys.executable, "-m", "oomctl", *arguments],
        capture_output=True,
        cwd=cwd,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "100"},
    )
    err, _, peak = done.stderr.decode().rstrip("\n").rpartition("\n")
    assert int(peak) < MAX_KIB
    assert "Traceback" not in err
    return Ran(done.returncode, done.stdout.decode(), f"{err}\n" if err else "")


def zeros(mib: int) -> bytes:
    return gzip.compress(bytes(mib * MIB), 1)


def xz_of_a_gigabyte_dictionary() -> bytes:
    return lzma.compress(TEXT, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**30}])


def long_name() -> bytes:
    """A tar in which the name of an entry takes 600 MiB."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 600 * MIB
    packer = zstandard.ZstdCompressor().compressobj()
    parts = [packer.compress(entry.tobuf(tarfile.USTAR_FORMAT))]
    parts += [packer.compress(b"a" * MIB) for _ in range(600)]
    return b"".join([*parts, packer.flush()])


def repeated(mib: int) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    line = b"GET /health of a server that is well\n" * (MIB // 37)
    return b"".join([*(packer.compress(line) for _ in range(mib)), packer.flush()])


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip": (lambda: zeros(600), "no text in the first 256 MiB (bomb)"),
    "gzip in gzip": (lambda: gzip.compress(zeros(600)), "no text in the first 256 MiB (bomb)"),
    "layers": (lambda: gzipped(TEXT, 9), "packed more than 4 times (bomb)"),
    "xz": (xz_of_a_gigabyte_dictionary, "damaged or cut off: "),
    "bzip2": (lambda: bz2.compress(bytes(64 * MIB)), "not a text log (bomb)"),
    "name": (long_name, "a name or header of an entry is too long (bomb)"),
    "zstd": (lambda: repeated(400), "expands more than 1000 times"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_told_in_a_line(tmp_path: Path, name: str) -> None:
    build, said = BOMBS[name]
    (tmp_path / "bomb").write_bytes(build())
    ran = bounded("triage", "bomb", cwd=tmp_path)
    assert ran.err.count("error: ") + ran.err.count("warning: ") == 1
    assert said in ran.err


def test_a_bomb_of_failures_is_counted_and_its_end_is_read(tmp_path: Path) -> None:
    """40 MiB of one failure in 4 KB: its copies cost no rows, and what stands behind them is not cut off."""
    packer = zstandard.ZstdCompressor().compressobj()
    last = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    parts = [packer.compress(OOM * (MIB // len(OOM))) for _ in range(40)]
    (tmp_path / "bomb").write_bytes(b"".join([*parts, packer.compress(last), packer.flush()]))
    ran = bounded(
        "query", "bomb", "-c", "SELECT count(*) AS n, max(requested_bytes) AS most FROM oom", "--json", cwd=tmp_path
    )
    (found,) = json.loads(ran.out)
    assert found["most"] == 2 * 1024 * MIB
    assert found["n"] < 4 * MIB // len(OOM), "what came before it was known for a repetition"
    assert "lines only repeat others; counted, and not looked at" in ran.err
    lost = bounded("query", "bomb", "-c", "SELECT reason, count FROM loss", "--json", cwd=tmp_path)
    total = 40 * (MIB // len(OOM)) + 1
    assert json.loads(lost.out) == [{"reason": "line repeated", "count": total - found["n"]}]


@pytest.mark.parametrize("repeats", [1, 60])
def test_a_log_that_compresses_well_is_read_whole(tmp_path: Path, repeats: int) -> None:
    """Lines that differ in their times, as logs do: every one of them gives its rows."""
    text = b"".join(b"ERROR 03-14 15:%02d:%02d [a.py:1] %s" % (n // 60 % 60, n % 60, OOM) for n in range(300)) * repeats
    (tmp_path / "a").write_bytes(zstandard.ZstdCompressor().compress(text[: MIB // 2]))
    ran = bounded("query", "a", "-c", "SELECT count(*) AS n FROM oom", "--json", cwd=tmp_path)
    assert (json.loads(ran.out), ran.err) == ([{"n": text[: MIB // 2].count(b"Tried")}], "")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("share", [0.5, 0.97])
def test_what_is_cut_off_is_said(tmp_path: Path, pack: Callable[[bytes], bytes], share: float) -> None:
    data = pack(OOM + b"".join(b"INFO %s\n" % os.urandom(40).hex().encode() for _ in range(60_000)))
    (tmp_path / "a").write_bytes(data[: int(len(data) * share)])
    ran = bounded("triage", "a", "--json", cwd=tmp_path)
    assert ran.err.startswith("oomctl: warning: a: damaged or cut off: ")
    assert ran.err.count("\n") == 1
    assert [found["verdict"] for found in json.loads(ran.out)["incidents"]] == ["oom"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, zstandard.ZstdCompressor().compress])
def test_nothing_that_can_be_unpacked_is_lost(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """The failure stands near the end, before the last block of 128 KiB, which zstd cannot unpack without its end."""
    noise = b"".join(b"INFO %s\n" % os.urandom(40).hex().encode() for _ in range(30_000))
    (tmp_path / "a").write_bytes(pack(noise + OOM + noise[: 4 * PIECE_BYTES])[:-9])
    ran = bounded("triage", "a", "--json", cwd=tmp_path)
    assert ran.err.startswith("oomctl: warning: a: damaged or cut off: ")
    document = json.loads(ran.out)
    assert document["inputs"][0]["lines"] > 30_000
    assert [found["verdict"] for found in document["incidents"]] == ["oom"]


@pytest.mark.parametrize("pack", [lzma.compress, zstandard.ZstdCompressor().compress, gzip.compress])
def test_streams_one_after_the_other_are_one_log(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a").write_bytes(pack(b"x\n") + pack(OOM))
    ran = bounded("triage", "a", "--json", cwd=tmp_path)
    assert (json.loads(ran.out)["inputs"][0]["lines"], ran.err) == (2, "")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_its_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.log").write_bytes(TEXT.decode().encode(encoding))
    ran = bounded("triage", "a.log", "--json", cwd=tmp_path)
    document = json.loads(ran.out)
    assert (document["inputs"][0]["lines"], document["incidents"][0]["class"]) == (len(TEXT.splitlines()), "warm_up")


@pytest.mark.parametrize(
    "line",
    [
        b"x" * 50 * MIB,
        b"error (" * 100_000 + b")" * 100_000,
        b'{"log":' * 100_000 + b"1" + b"}" * 100_000,
        b"error " + b"[" * 100_000 + b"]" * 100_000,
        b'{"message": "' + b"[" * 100_000 + b'"}',
    ],
    ids=["50 MB", "parentheses", "objects", "brackets", "brackets in an object"],
)
def test_a_monstrous_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.log").write_bytes(line + b"\n" + OOM)
    ran = bounded("triage", "a.log", "--json", cwd=tmp_path)
    (found,) = json.loads(ran.out)["incidents"]
    assert found["evidence"][0]["cites"][0]["line"] == 2


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01" + BYTES, b"\x89PNG\r\n\x1a\n" + BYTES, b"\x80\x04\x95" + BYTES],
    ids=["ELF", "PNG", "pickle"],
)
def test_binary(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    bounded("triage", "a", cwd=tmp_path).assert_fails(3, "not a text log (a)")


def test_a_folder_of_what_is_no_file(tmp_path: Path) -> None:
    """A pipe without a writer would wait for ever, a loop of links for longer."""
    folder = tmp_path / "d"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "gone").symlink_to("nowhere")
    (folder / "a.log").write_bytes(OOM)
    for argument in ("d", "d/*"):
        ran = bounded("triage", argument, "--json", cwd=tmp_path)
        assert [entry["path"] for entry in json.loads(ran.out)["inputs"]] == ["d/a.log"]


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_marks_that_a_terminal_obeys_are_escaped(tmp_path: Path, form: str) -> None:
    """Control characters, and marks that turn the direction of writing, in a line and in a name."""
    name = "a\u202e\x1b[2J.log"
    (tmp_path / name).write_bytes(OOM.rstrip() + " \u202egnp.\u2066\x1b]0;x\x07\x9b2J\x00\n".encode())
    ran = bounded("triage", name, "--format", form, cwd=tmp_path)
    assert ran.code == 0
    assert not {"\u202e", "\u2066", "\x1b", "\x07", "\x9b", "\x00"} & set(ran.out)


def test_a_tar_of_hostile_names(tmp_path: Path) -> None:
    target = io.BytesIO(tar({"/etc/../x\u202e\x1b[2J": TEXT, "../../y": TEXT}))
    (tmp_path / "a.tar").write_bytes(target.getvalue())
    ran = bounded("triage", "a.tar", cwd=tmp_path)
    assert ran.code == 0
    assert not {"\u202e", "\x1b"} & set(ran.out + ran.err)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    """A pipe's reader has part of it in hand when the rest goes: told as the log it was."""
    path = tmp_path / "a.log"
    path.write_bytes(OOM + b"INFO x\n" * 3_000_000)
    # Cut once somebody has read a part of it: its place in the file is beyond its start.
    script = (
        f"while ! cat $(find /proc/[0-9]*/fd -lname {path} 2>/dev/null | sed 's:/fd/:/fdinfo/:') /dev/null 2>/dev/null"
        f" | grep -q 'pos:.*[1-9]'; do sleep 0.01; done; truncate -s 100 {path}; rm {path}"
    )
    with subprocess.Popen(["sh", "-c", script]) as cutter:
        ran = bounded("triage", "a.log", "--json", cwd=tmp_path)
        assert cutter.wait(timeout=60) == 0
    assert [found["verdict"] for found in json.loads(ran.out)["incidents"]] == ["oom"]
