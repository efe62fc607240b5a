"""oomctl.toml, the environment and flags: which counts, where it came from, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from oomctl.cli.app import app, run
from oomctl.config import file
from oomctl.config.resolve import _check
from oomctl.config.settings import ACTING, Setting, schema, settings
from oomctl.schemas.errors import ExitCode, OomctlError

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "vllm-graph-capture.log")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _command() -> Any:
    return typer.main.get_command(app)


def _shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[Any, str]]:
    assert run(["config", "show", *words, "--json"]) == 0
    return {row["option"]: (row["value"], row["from"]) for row in json.loads(capsys.readouterr().out)}


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.splitlines()[0]
    assert line.startswith("oomctl: error: ")
    return printed.err.removeprefix("oomctl: error: ")


def test_a_flag_counts_more_than_the_environment_that_more_than_the_file_and_that_more_than_the_default(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def form(*more: str) -> str:
        assert run(["triage", EXAMPLE, *more]) == 0
        return capsys.readouterr().out[:2]

    assert form() == "OU"  # OUT OF MEMORY: the table
    (folder / "oomctl.toml").write_text('[triage]\nformat = "csv"\n')
    assert form() == "id"
    monkeypatch.setenv("OOMCTL_TRIAGE_FORMAT", "md")
    assert form() == "# "
    assert form("--format", "csv") == "id"
    assert form("--json") == "{\n"  # short for --format json: it does not contradict what no flag said


def test_show_says_where_each_value_came_from(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.toml").write_text(
        '# mine\n[attach]\nbudget = "4GiB"\nkv-events = ["tcp://a:1", "tcp://b:2"]\ndevices = false\n'
    )
    monkeypatch.setenv("OOMCTL_ATTACH_DEVICES", "yes")
    monkeypatch.setenv("OOMCTL_CAPACITY_LIMIT_BLOCK_SIZE", "32")
    monkeypatch.setenv("OOMCTL_ATTACH_BUDGET", "")
    shown = _shown(capsys, "--config", "a.toml")
    assert shown["attach.budget"] == ("4GiB", "a.toml:3")
    assert shown["attach.kv-events"] == ("tcp://a:1 tcp://b:2", "a.toml:4")
    assert shown["attach.devices"] == (True, "OOMCTL_ATTACH_DEVICES")
    assert shown["attach.minutes"] == (10.0, "default")
    assert shown["capacity.limit.block-size"] == (32, "OOMCTL_CAPACITY_LIMIT_BLOCK_SIZE")
    monkeypatch.setenv("OOMCTL_CONFIG", "a.toml")
    assert _shown(capsys, "capacity", "limit").keys() == {name for name in shown if name.startswith("capacity.limit.")}


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('[attach]\nbudgt = "1GiB"', "unknown key 'budgt' of [attach] (oomctl.toml:2)", "did you mean budget?"),
        ("[capacity.reply]\nblocks = 1", "unknown key 'reply' of [capacity] (oomctl.toml:2)", "did you mean replay"),
        ("[atach]\nminutes = 1", "unknown key 'atach' (oomctl.toml:2)", "did you mean attach?"),
        ("[triage.format]\nx = 1", "triage.format takes no table (oomctl.toml:2)", ""),
        ("[ledger]\npredict = 1", "ledger.predict takes a table (oomctl.toml:2)", ""),
        ("[attach]\nscrape = 1", "attach.scrape takes a text, not 1 (oomctl.toml:2)", ""),
        ("[attach]\n\nminutes = true", "attach.minutes takes a number, not True (oomctl.toml:3)", ""),
        ("[attach]\nminutes = nan", "attach.minutes takes a number, not nan (oomctl.toml:2)", ""),
        ("[attach]\nminutes = 0", "attach.minutes is at least 0.1, not 0 (oomctl.toml:2)", ""),
        ("[attach]\nserve-metrics = 1.5", "attach.serve-metrics takes a whole number, not 1.5 (oomctl.toml:2)", ""),
        ('[query]\nparam = "a"', "query.param takes a list, not 'a' (oomctl.toml:2)", ""),
        ("[query]\nparam = [1]", "query.param takes a text, not 1 (oomctl.toml:2)", ""),
        ('[triage]\nformat = "xml"', "triage.format cannot be 'xml' (oomctl.toml:2)", "known: table, json"),
        ("[triage]\njson = true", "unknown key 'json' of [triage] (oomctl.toml:2)", "format"),
        ('[attach]\nhook = "rm"', "attach.hook may only stand in a file that is named (oomctl.toml:2)", "--config"),
        ("'attach.budget' = '1GiB'", "unknown key 'attach.budget' (oomctl.toml)", "did you mean attach?"),
        ("[attach", "no TOML: ", "config schema"),
        ("a = " + "[" * 5000, "no TOML: ", "config schema"),
        ("a = " + "9" * 5000, "no TOML: ", "config schema"),
        (".".join("a" * 3000) + " = 1", "no TOML: ", "config schema"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str, hint: str
) -> None:
    (folder / "oomctl.toml").write_text(text)
    told = _refused(capsys, "triage", EXAMPLE)
    assert told.startswith(said)
    assert hint in told
    assert len(told.splitlines()) <= 2


def test_a_value_that_only_the_command_can_judge_is_told_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "oomctl.toml").write_text('[attach]\nbudget = "much"\n')
    words = ("attach", "1", "--config", "oomctl.toml", "-o", "rec", "--metrics", "none")
    assert _refused(capsys, *words).startswith("--budget is no size: 'much' (oomctl.toml:2)\n")
    assert _refused(capsys, *words, "--budget", "x").startswith("--budget is no size: 'x'\n")
    monkeypatch.setenv("OOMCTL_ATTACH_BUDGT", "1GiB")
    assert "did you mean OOMCTL_ATTACH_BUDGET" in _refused(capsys, *words)
    monkeypatch.delenv("OOMCTL_ATTACH_BUDGT")
    monkeypatch.setenv("OOMCTL_ATTACH_DEVICES", "maybe")
    assert _refused(capsys, *words).startswith("attach.devices takes true or false, not 'maybe' (OOMCTL_ATTACH_DEVICES)\n")


def test_files_that_are_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "(gone.toml)" in _refused(capsys, "triage", EXAMPLE, "--config", "gone.toml")
    assert "(.)" in _refused(capsys, "triage", EXAMPLE, "--config=.")
    (folder / "big.toml").write_bytes(b"#" * (file.MAX_BYTES + 1))
    assert "more than 1 MiB" in _refused(capsys, "triage", EXAMPLE, "--config", "big.toml")
    (folder / "latin.toml").write_bytes(b"[attach]\nlog = '\xe9'\n")
    assert "not UTF-8" in _refused(capsys, "triage", EXAMPLE, "--config", "latin.toml")
    assert "requires a file" in _refused(capsys, "triage", EXAMPLE, "--config")


def test_help_and_the_schema_are_never_in_the_way_of_a_broken_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "oomctl.toml").write_text("[")
    for words in (["attach", "--help"], ["--version"], ["config", "schema"]):
        assert run(words) == 0
    assert capsys.readouterr().err == ""
    assert "no TOML" in _refused(capsys, "config", "show")


def test_what_acts_is_named_by_options_that_exist() -> None:
    assert {setting.key for setting in settings(_command())} >= ACTING
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    told = page.partition("`OOMCTL_CONFIG` names: ")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", told)) == ACTING


@pytest.mark.parametrize(
    "setting", [each for each in settings(_command()) if each.key in ACTING], ids=lambda each: each.name
)
def test_what_acts_is_refused_in_a_file_that_lies_there_and_the_same_from_all_others(
    setting: Setting, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN each option that acts THEN a named file and the environment set the same, and a misspelling names it."""
    kind = setting.one.get("type", "string")
    text = {"boolean": "true", "integer": "7", "number": "1.5"}.get(kind, "x/y")
    written = f'"{text}"' if kind == "string" else text
    table, key = ".".join(setting.command), setting.key
    (folder / "oomctl.toml").write_text(f"[{table}]\n{key} = {f'[{written}]' if setting.many else written}\n")
    assert "may only stand in a file that is named (oomctl.toml:2)" in _refused(capsys, "config", "show")
    (folder / "oomctl.toml").rename("named.toml")
    for variable in ("OOMCTL_CONFIG", setting.variable):
        monkeypatch.setenv(variable, "named.toml" if variable == "OOMCTL_CONFIG" else text)
        value, origin = _shown(capsys)[setting.name]
        assert (str(value).lower(), origin) == (text, "named.toml:2" if variable == "OOMCTL_CONFIG" else variable)
        monkeypatch.delenv(variable)
    (folder / "named.toml").write_text(f"[{table}]\n{key}x = 1\n")
    assert f"did you mean {key}" in _refused(capsys, "config", "show", "--config", "named.toml")
    monkeypatch.setenv(f"{setting.variable}X", "1")
    assert f"did you mean {setting.variable}" in _refused(capsys, "config", "show")


def test_every_option_may_be_set_and_the_schema_is_that_of_the_options() -> None:
    found = {setting.name: setting for setting in settings(_command())}
    document = schema(_command())
    for name, setting in found.items():
        table = document
        for word in setting.command:
            table = table["properties"][word]
        declared = table["properties"][setting.key]
        assert setting.parameter.name is not None
        assert f"--{setting.key}" in setting.parameter.opts
        assert declared["type" if "type" in declared else "enum"], name
    leaves = sum(1 for _ in _leaves(document))
    assert leaves == len(found) == len({setting.variable for setting in found.values()})


def _leaves(table: dict[str, Any]) -> Any:
    for below in table["properties"].values():
        if below.get("type") == "object":
            yield from _leaves(below)
        else:
            yield below


def test_a_default_is_what_the_schema_allows() -> None:
    for setting in settings(_command()):
        if (default := setting.schema.get("default")) is not None:
            _check(setting, default, "default")


def test_lines_are_those_of_the_file(folder: Path) -> None:
    (folder / "a.toml").write_text("a.b = 1\n[c]\n'd' = {e = 2}\n[ f . g ]\nh = '''\nh = 3\n'''\n[i]\n")
    places = {".".join(entry.path): entry.place for entry in file.read(Path("a.toml"))}
    assert places == {"a.b": "a.toml:1", "c.d.e": "a.toml:3", "f.g.h": "a.toml:5", "i": "a.toml:8"}


def test_an_unreadable_file_is_no_traceback(folder: Path) -> None:
    with pytest.raises(OomctlError):
        file.read(folder)
