"""Property: whatever is planted in a log, in whatever envelope, the export has none of it, and the verdict stays."""

import json
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomctl.analyzers.triage import triage
from oomctl.pipeline import open_inputs
from oomctl.redaction.names import Pseudonyms
from oomctl.redaction.table import redacted
from oomctl.redaction.words import public_words
from oomctl.schemas.text_forms import rows
from tests import public_words as lists
from tests.cli.run import oomctl
from tests.cli.test_export import facts
from tests.redaction.planted import described, enveloped, envelopes, planted, secrets
from tests.scenarios import catalogue, render_log
from tests.shared import ROOT

LOGS = [
    (scenario.name, engine)
    for scenario in catalogue()
    for engine in scenario.engines
    if 'File "' in render_log(scenario.name, seed=1, ranks=1, engine=engine)
]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(LOGS), st.integers(0, 10**6), st.sampled_from(list(envelopes(secrets(0)))))
def test_no_secret_leaves(tmp_path: Path, log: tuple[str, str], seed: int, envelope: str) -> None:
    hidden = secrets(seed)
    text = planted(render_log(log[0], seed=seed % 7, ranks=1 + seed % 2, engine=log[1]), hidden)
    path = tmp_path / f"{hidden.odd['owner']}.log"
    path.write_text(enveloped(text, envelopes(hidden)[envelope]))
    loaded = open_inputs([str(path)])
    before = json.dumps(list(rows(loaded.connection)))
    assert len(hidden.found_in(before)) > 30, "the secrets were in what was read"
    table = redacted(loaded.connection)
    assert hidden.found_in(json.dumps(list(rows(table)), ensure_ascii=False)) == []
    told = [json.loads(msgspec.json.encode(triage(each))) for each in (loaded.connection, table)]
    assert facts(told[1]) == facts(told[0]) != []
    assert hidden.found_in(json.dumps(told[1])) == []
    loaded.connection.close()
    table.close()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_no_secret_is_in_the_file(tmp_path: Path, form: str) -> None:
    """The bytes of the file, and what the command prints; Parquet's are compressed, so what is read back from it."""
    hidden = secrets(random.Random(form).randrange(1000))
    (tmp_path / "a.log").write_text(planted(render_log("warm_up_capture", seed=1, ranks=1, engine="vllm"), hidden))
    ran = oomctl("export", "a.log", "--redact", "-o", f"out.{form}", cwd=tmp_path)
    assert ran.code == 0
    data = (tmp_path / f"out.{form}").read_bytes().decode("utf-8", "replace")
    shown = oomctl("query", f"out.{form}", "-c", "SELECT * FROM events", "--format", "jsonl", cwd=tmp_path).out
    page = oomctl("triage", f"out.{form}", "--format", "md", cwd=tmp_path).out
    assert hidden.found_in(data + ran.err + shown + page) == []
    assert "site-packages/vllm/" in shown or "vllm/v1/" in shown


def test_a_described_pod_names_nobody(tmp_path: Path) -> None:
    """What `kubectl describe pod` prints, beside the engine's log of the same pod."""
    hidden = secrets(7)
    (tmp_path / "pod.txt").write_text(described(hidden))
    loaded = open_inputs([str(tmp_path / "pod.txt")])
    before = json.dumps(list(rows(loaded.connection)))
    assert len(hidden.found_in(before)) >= 2, "it was in what was read"
    table = redacted(loaded.connection)
    after = json.dumps(list(rows(table)))
    assert hidden.found_in(after) == []
    assert "OOMKilled" in after
    loaded.connection.close()
    table.close()


def test_what_is_public_stays() -> None:
    """A log that names nobody is hardly touched: an export is of use only where it can be read."""
    line = (
        "(EngineCore_DP0 pid=77) ERROR 07-03 11:01:02 [core.py:842] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 1.18 GiB. GPU 1 has a total capacity of 79.18 GiB of which 870.50 MiB is free."
    )
    assert Pseudonyms().scrub(line) == line


@pytest.mark.parametrize("end", [".", ". Top", ",", ":80", "/", ")", ""])
def test_an_address_is_hidden_whatever_ends_its_sentence(end: str) -> None:
    assert "169.254.181.2" not in Pseudonyms().scrub(f"the node with -ip 169.254.181.2{end}")


@pytest.mark.parametrize("view", ["phase_marker", "executable"])
def test_the_words_by_which_triage_decides_are_public(view: str) -> None:
    """`python -m tests.public_words SITE_PACKAGES` makes the list anew."""
    told = lists.words((ROOT / "queries" / "views" / f"{view}.sql").read_text(encoding="utf-8"))
    assert told - public_words() == set()
    assert not lists.NOBODY & public_words()
