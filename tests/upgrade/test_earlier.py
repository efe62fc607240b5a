"""Files that earlier versions wrote are read, and `import` makes them anew; their layouts are never broken.

`earlier/` was written by oomctl at these commits from examples/vllm-graph-capture.log:

- import.parquet: `import`, 8206b48, when the table of version 0 had 235 fields.
- export.jsonl, export.csv: the first rows of `import -o`, before 05974d9; version 0.
- recording/: `attach -o DIR --log FILE`, before 05974d9; a live file of format 1, rows of version 0.
"""

import os
import shutil
from pathlib import Path

import pytest

from oomctl.cli.app import run
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.live import FORMAT_VERSION
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.schemas.common import COMMON
from oomctl.schemas.events import KINDS
from oomctl.schemas.version import SCHEMA_VERSION, VERSION_KEY
from tests.cli.run import oomctl

HERE = Path(__file__).parent
EARLIER = HERE / "earlier"
LAYOUTS = {int(path.stem.removeprefix("version-")): path for path in HERE.glob("version-*.txt")}
WARM_UP = "OUT OF MEMORY, warm_up (OOM002), device memory"


def _layout() -> list[str]:
    """Every column and field, as `KIND.FIELD type`."""
    own = (f"{kind.name}.{field.name} {field.type}" for kind in KINDS.values() for field in kind.fields)
    return sorted([*(f"{field.name} {field.type}" for field in COMMON), *own])


def test_the_layout_is_the_one_that_its_version_names() -> None:
    """An older oomctl, which goes by the version, would drop in silence what is added without one."""
    path = HERE / f"version-{SCHEMA_VERSION}.txt"
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        path.write_text("\n".join(_layout()) + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8").splitlines() == _layout()


@pytest.mark.parametrize("version", LAYOUTS)
def test_no_field_of_a_version_was_renamed_retyped_or_removed(version: int) -> None:
    assert set(LAYOUTS[version].read_text(encoding="utf-8").splitlines()) - set(_layout()) == set()


@pytest.mark.parametrize("name", ["import.parquet", "recording"])
def test_an_earlier_file_gives_the_same_verdict(name: str) -> None:
    ran = oomctl("triage", str(EARLIER / name))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(WARM_UP)


@pytest.mark.parametrize("name", ["import.parquet", "export.jsonl", "export.csv", "recording"])
def test_import_makes_an_earlier_file_anew_with_every_row(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    def rows(path: Path) -> str:
        everything = "SELECT * FROM events ORDER BY stream, seq, kind"
        assert run(["query", str(path), "-c", everything, "--format", "jsonl"]) == 0
        return capsys.readouterr().out

    made = tmp_path / "new.parquet"
    assert run(["import", str(EARLIER / name), "-o", str(made)]) == 0
    assert pq.read_metadata(made).metadata[VERSION_KEY.encode()] == str(SCHEMA_VERSION).encode()
    before = rows(EARLIER / name)
    assert before.count("\n") >= 11
    assert rows(made) == before


def test_the_next_recorder_goes_on_in_an_earlier_recording(tmp_path: Path) -> None:
    root = tmp_path / "recording"
    shutil.copytree(EARLIER / "recording", root)
    with (root / "live" / "00000001.live").open("rb") as file:
        header = LiveReader(file, "1").header
    assert (header.format, header.schema_version) < (FORMAT_VERSION, SCHEMA_VERSION)
    resumption = Folder(root).resume()
    assert resumption.number == 2
    assert resumption.torn is None
    assert "recorder" in resumption.state
