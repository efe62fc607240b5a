"""The page of `oomctl report`: complete, inert, small, drawn."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import incident
from oomctl.cli import pages
from oomctl.report import charts
from oomctl.schemas import storage
from oomctl.schemas.rows import make_row
from oomctl.schemas.verdict import MemoryNode
from tests.browser import Document, needs_browser, opened
from tests.cli.run import oomctl
from tests.queries.fixtures import Fixture, database
from tests.scenarios import render_log

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(1)></script>\x1b[2J\u202eabc'
CHARTS = {"memory", "time", "cohorts", "ranks"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on a recording of everything but a snapshot, and of a request with an evil name."""
    folder = tmp_path_factory.mktemp("report")
    connection = database(Fixture("recording"))
    at = {"ts": 1_777_888_810_000_000, "ts_quality": "exact", "stream": "evil", "worker": "w0", "source": "agent"}
    rows = [
        make_row("request", {"request_id": EVIL, "event": event, "kv_blocks": 9999, "cohort": EVIL}, at | {"seq": n})
        for n, event in enumerate(("admitted", "blocks_changed"), 1)
    ]
    storage.load_rows(connection, rows)
    storage.write_parquet(connection, folder / "a.parquet", "a test")
    ran = oomctl("report", "a.parquet", "-o", "a.html", cwd=folder)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (folder / "a.html").stat().st_mode & 0o777 == 0o600
    return folder / "a.html"


def test_it_holds_each_section_and_its_links_lead_there(written: Path) -> None:
    page = Document(written.read_text(encoding="utf-8"))
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert {"#verdict", "#time", "#lacking", "#explain-OOM005", "#explain-preemption_storm"} <= set(links)
    assert {link[1:] for link in links if link} <= page.ids()
    charts = {attributes["data-chart"] for tag, attributes in page.tags if tag == "script" and "data-chart" in attributes}
    assert charts == CHARTS
    assert "not recorded: needs an allocator snapshot" in page.text
    assert "SQL: kv_blocks" in page.text
    assert len(page.ids()) == sum("id" in attributes for _, attributes in page.tags)


def test_what_a_verdict_names_is_explained_on_the_page(written: Path) -> None:
    page = Document(written.read_text(encoding="utf-8"))
    told = json.loads(oomctl("triage", "a.parquet", "--json", cwd=written.parent).out)
    causes = {cause["cause"] for incident in told["incidents"] for cause in incident["causes"]}
    assert causes
    for name in causes:
        (said,) = [found for found in pages.causes() if found.name == name]
        assert f"explain-{name}" in page.ids() and f"docs/causes/{name}.md" in page.text
        assert "Does not help." in said.text and said.summary in page.text


def test_nothing_is_loaded_and_no_text_is_code(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    page = Document(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "link", "iframe", "object", "form", "base"})
    assert not any(name == "src" or name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert all((attributes.get("href") or "#").startswith("#") for _, attributes in page.tags)
    nonces = re.findall(r"nonce-([^']+)'", text)
    scripts = [attributes for tag, attributes in page.tags if tag == "script" and "data-chart" not in attributes]
    assert [script["nonce"] for script in scripts] == nonces * 2
    assert "\x1b" not in text and "\u202e" not in text and "<script>alert" not in text
    assert EVIL.partition("<")[2][:6] in page.text


def test_charts_are_data(written: Path) -> None:
    blocks = re.findall(r'<script type="application/json" data-chart="(\w+)">(.*?)</script>', written.read_text("utf-8"))
    drawn = {key: json.loads(block) for key, block in blocks}
    assert set(drawn) == CHARTS
    names = [child["layer"][0]["name"] for child in drawn["time"]["vconcat"]]
    assert drawn["time"]["params"][0]["views"] == names and len(names) == 6
    # Every figure of a chart is a figure of its table: the KV pool was full, and no peak was lost.
    shares = [row["share"] for rows in drawn["time"]["datasets"].values() for row in rows if "share" in row]
    full = oomctl("query", "a.parquet", "kv_blocks", "--json", cwd=written.parent)
    assert sorted(shares) == sorted(row["usage_ratio"] for row in json.loads(full.out) if row["usage_ratio"] is not None)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--blink-settings=preferredColorScheme=0", "--window-size=500,900")])
def test_a_browser_draws_every_chart_and_complains_of_nothing(
    written: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    drawn, said = opened(written, *options, profile=tmp_path / "profile")
    page = Document(drawn)
    charts = [attributes for _, attributes in page.tags if (attributes.get("id") or "").startswith("chart-")]
    assert [chart.get("data-drawn") for chart in charts] == ["yes"] * len(CHARTS)
    assert not any(attributes.get("class") == "error" for _, attributes in page.tags)
    assert "CONSOLE" not in said, said
    assert sum(tag == "svg" for tag, _ in page.tags) >= len(CHARTS)
    assert not any(tag == "img" for tag, _ in page.tags)


@pytest.mark.slow
def test_ten_minutes_of_eight_ranks_are_a_small_page(tmp_path: Path) -> None:
    incident.write(tmp_path / "a.parquet")
    assert oomctl("report", "a.parquet", "-o", "a.html", cwd=tmp_path).code == 0
    assert (tmp_path / "a.html").stat().st_size < 4_000_000


def test_a_log_alone_is_a_report(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(render_log("decode_exhausted", seed=3, ranks=1))
    assert oomctl("report", "a.log", "-o", "a.html", cwd=tmp_path).code == 0
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "decode_growth (OOM004)" in text and 'data-chart="time"' in text
    oomctl("report", "a.log", "-o", "a.html", cwd=tmp_path).assert_fails(2, "will not overwrite", "--force")


def test_a_healthy_log_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("INFO 03-11 02:42:11 [api_server.py:1044] vLLM API server version 0.9.1\n")
    assert oomctl("report", "a.log", "-o", "a.html", cwd=tmp_path).code == 0
    assert "No memory incident found" in (tmp_path / "a.html").read_text(encoding="utf-8")
    (tmp_path / "b.log").write_text("")
    oomctl("report", "b.log", "-o", "b.html", cwd=tmp_path).assert_fails(3, "empty file")
    assert not (tmp_path / "b.html").exists()


def test_the_data_and_the_ticket_say_the_same(written: Path) -> None:
    data = json.loads(oomctl("report", "a.parquet", "--format", "json", cwd=written.parent).out)
    triage = json.loads(oomctl("triage", "a.parquet", "--json", cwd=written.parent).out)
    assert data["triage"] == triage
    pools = next(answer for answer in data["answers"] if answer["query"] == "kv_blocks")
    asked = json.loads(oomctl("query", "a.parquet", "kv_blocks", "--json", cwd=written.parent).out)
    assert [dict(zip(pools["columns"], row, strict=True)) for row in pools["rows"]] == asked
    ticket = oomctl("report", "a.parquet", "-o", "t.md", cwd=written.parent)
    assert ticket.code == 0, ticket.err[-3000:]
    text = (written.parent / "t.md").read_text(encoding="utf-8")
    assert triage["incidents"][0]["summary"] in text.replace("\\", "")
    assert "<script>" not in text.replace("\\<", "")
    for picture in re.findall(r"!\[.*\]\(<(.*)>\)", text):
        assert (written.parent / picture).read_bytes().startswith(b"\x89PNG")


def test_a_part_of_the_memory_is_drawn_although_the_whole_was_not_printed() -> None:
    def node(name: str, size: int | None, *children: MemoryNode) -> MemoryNode:
        return MemoryNode(name=name, bytes=size, quality="measured", children=children)

    tree = node("device", 80, node("own", None, node("framework", None, node("weights", 30))), node("free", 1))
    spec = charts.waterfall(tree)
    assert spec is not None
    bars = [(row["part"], round(row["from"] * 2**30), round(row["to"] * 2**30)) for row in spec["datasets"]["table0"]]
    assert bars == [("framework / weights", 0, 30), ("free", 30, 31), ("device", 0, 80)]
