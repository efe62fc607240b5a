"""Small recordings of ours, made without a log reader."""

from pathlib import Path

from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row
from tests.cli.samples import HOSTILE


def rows(stream: str, count: int = 3) -> list[Row]:
    """`count` log rows, the second one hostile, the others at one second's distance."""
    made = []
    for seq in range(count):
        common = {"stream": stream, "seq": seq, "line": seq + 1, "source": "log", "worker": stream}
        if seq != 1:
            common |= {"ts": 1_700_000_000_000_000 + seq * 1_000_000, "ts_quality": "exact"}
        text = HOSTILE if seq == 1 else f"line {seq}"
        made.append(make_row("log", {"file": stream, "level": "INFO", "text": text}, common))
    return made


def recording(path: Path, stream: str = "a.log", count: int = 3) -> Path:
    """Write a recording."""
    connection = storage.connect()
    storage.load_rows(connection, rows(stream, count))
    storage.write_parquet(connection, path, "test")
    connection.close()
    return path
