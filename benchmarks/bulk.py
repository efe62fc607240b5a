"""A long recording of eight ranks: every request and every KV block is told of, and at its end the KV pool is exhausted.

Made by SQL, within a minute or two, for what triage costs on ten million rows. Every figure follows from the requests, of
which `bulk.sql` tells how they come, grow and end.
"""

import re
import sys
from pathlib import Path

from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS

WORLD = Path(__file__).with_suffix(".sql")
REQUESTS = 25_600
"""They make ten million rows."""
PLANTED = ("decode_growth", "kv_blocks", False)
"""(class, resource, whether the engine survived)."""
MEMORY_LIMIT = "4GiB"
COMMON = (
    "make_timestamp(1777888800000000 + CAST(1e6 * second AS BIGINT)) AS ts, 'exact' AS ts_quality, 'n0' AS node, "
    "'w0' AS worker, 'boot-1-1' AS incarnation"
)


def write(path: Path, requests: int) -> int:
    """Write it as Parquet.

    Returns:
        How many rows it has.
    """
    world = WORLD.read_text(encoding="utf-8").replace("$requests", str(requests))
    kinds = re.findall(r"^CREATE TABLE made_(\w+)", world, re.MULTILINE)
    with storage.connect() as connection:
        connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
        connection.execute(world)
        keys = " UNION ALL ".join(
            f"SELECT '{kind}' AS kind, rowid AS id, stream, second FROM made_{kind}" for kind in kinds
        )
        connection.execute(
            "CREATE TABLE place AS "
            f"SELECT kind, id, row_number() OVER (PARTITION BY stream ORDER BY second, kind, id) AS seq FROM ({keys})"
        )
        rows = 0
        for kind in kinds:
            added = connection.execute(
                f"INSERT INTO {ddl.stored(KINDS[kind])} BY NAME SELECT made.* EXCLUDE (second, id), seq, {COMMON} "
                f"FROM (SELECT *, rowid AS id FROM made_{kind}) AS made "
                f"INNER JOIN place ON place.kind = '{kind}' AND place.id = made.id"
            )
            rows += added.fetchall()[0][0]
            connection.execute(f"DROP TABLE made_{kind}")
        storage.write_parquet(connection, path, "oomctl benchmarks")
    return rows


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2])))
