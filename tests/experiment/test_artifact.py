"""The artifact: kept whole, compared, and read by admission."""

import json
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.capacity.admission import MaxTokens, Request, decide, state_of
from oomctl.analyzers.capacity.experiment.breaks import Floors
from oomctl.analyzers.capacity.experiment.compare import diff
from oomctl.cli.render.experiment import point_lines
from oomctl.experiment.conclusion import conclude
from oomctl.experiment.folder import Folder, read_experiment
from oomctl.experiment.page import page
from oomctl.experiment.settings import Settings
from oomctl.schemas.cohorts import Spread
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Experiment, Leak, Step, Try
from oomctl.schemas.replay import Slo
from tests.cli.run import oomctl

SLO = Slo(ttft_s=2.0, tpot_s=0.08)


def tried(rate: float, **fields: Any) -> Try:
    told: dict[str, Any] = {
        "load": "mixed",
        "ttft_s": Spread(count=1, p50=0.5),
        "tpot_s": Spread(count=1, p50=0.02),
        "elapsed_s": 10.0,
        "requests": 100,
    }
    counts = dict.fromkeys(("good", "failed", "cancelled", "prompt_tokens", "output_tokens"), 0)
    return Try(rate_per_s=rate, sent_late_s=0.0, **(told | counts | fields))


def step(number: int, **fields: Any) -> Step:
    told: dict[str, Any] = {"name": f"step {number}", "status": "passed", "began_us": 0, "ended_us": 1}
    return Step(number=number, **(told | fields))


def experiment(rate: float = 4.0, **fields: Any) -> Experiment:
    """One that is complete, with an operating point."""
    tries = [tried(rate, least_free_blocks=30, most_waiting=3), tried(rate * 1.1, broke="slo")]
    point = {"rate_per_s": rate, "broken_rate_per_s": rate * 1.1}
    asked = Settings(root=Path(), launch="vllm serve m", url=None, slo=SLO).asked()
    found = Experiment(asked=asked, slo=SLO, share=0.9, complete=True, model="m", engine="vllm", **fields)
    found.steps = [
        step(3, figures={"measured_blocks": 400, "block_tokens": 16}),
        step(5, figures={"prefill_tokens_per_s": 5000.0}),
        step(10, figures=point, tries=tries),
    ]
    conclude(found, Floors(0.05, 0.01, 0.1))
    return found


def kept(root: Path, found: Experiment) -> Path:
    root.mkdir()
    Folder(root).keep(found)
    return root


def test_limits_become_the_state_of_a_pool(tmp_path: Path) -> None:
    root = kept(tmp_path / "a", experiment())
    state = state_of(root / "experiment.json", MaxTokens())
    assert (state.total_blocks, state.limit_blocks, state.block_tokens, state.queue_limit) == (400, 380, 16, 3)
    assert (state.prefill_tokens_per_s, state.tpot_s) == (5000.0, 0.02)
    # 380 blocks of 16 tokens may be promised.
    assert decide(state, Request("fits", prompt_tokens=5000, max_output_tokens=1080)).action == "admit"
    assert decide(state, Request("not", prompt_tokens=5000, max_output_tokens=1081)).reason == "too_large"
    assert state_of(root / "experiment.json", MaxTokens(), total_blocks=10, safety_blocks=0).total_blocks == 10


def test_limits_are_the_defaults_of_a_replay_and_what_is_given_counts_more(tmp_path: Path) -> None:
    root = kept(tmp_path / "a", experiment(arguments={"max_num_seqs": "8", "enable_prefix_caching": "False"}))
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 160, "output_length": 10, "hash_ids": []}\n', encoding="utf-8")
    told = oomctl("capacity", "replay", str(trace), "--limits", str(root), "--slo-ttft", "7", "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert (found["pool"]["total_blocks"], found["pool"]["block_tokens"]) == (400, 16)
    assert found["slo"] == {"ttft_s": 7.0, "tpot_s": 0.08}
    # 160 prompt tokens at 5,000 a second, then 20 ms for each further token, as measured.
    assert found["elapsed_s"] == pytest.approx(160 / 5000 + 9 * 0.02, rel=0.1)
    oomctl("capacity", "replay", str(trace)).assert_fails(2, "--blocks")


def test_the_page_says_what_broke_where_with_what_left_and_what_to_change() -> None:
    found = experiment(arguments={"max_num_seqs": "16"})
    found.steps[0] = step(3, status="failed", figures={"off_bytes": 3 << 20})
    said = " ".join(point_lines(found))
    assert "Not passed: 3 step 3 (failed)." in said
    assert "3.00 MiB" in page(found)
    assert "Operating point: 4 requests per second." in said
    assert "At 4.4 per second the SLO breaks first" in said
    assert "Free at the operating point, at least: 30 of 400 (7.50%) KV blocks." in said
    assert "another worker, or a wider SLO; 30 of 400 KV blocks were never needed." in said
    assert "another worker" in page(found)


@pytest.mark.parametrize(
    "content", ["[]", '{"schema": "oomctl.ledger/0"}', '{"schema": "oomctl.experiment/0", "limits": null}']
)
def test_what_tells_no_limits_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "experiment.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"experiment\.json"):
        state_of(path, MaxTokens())


def test_two_experiments_are_compared(tmp_path: Path) -> None:
    before = experiment()
    leak = Leak(
        figure="rss", whose="core", points=9, slope_bytes_per_s=1.0, low_bytes_per_s=0.5, high_bytes_per_s=1.5,
        slope_bytes_per_request=640.0, low_bytes_per_request=600.0, high_bytes_per_request=700.0, grows=True,
    )  # fmt: skip
    after = experiment(3.0, arguments={"max_num_seqs": "16"})
    after.steps.append(step(8, status="failed", leaks=[leak]))
    found = diff(before, after)
    assert found.settings == {"argument max_num_seqs": (None, "16")}
    assert found.steps == {"8 step 8": (None, "failed")}
    assert found.same_rate is False
    rate = next(one for one in found.limits if one.name == "rate_per_s")
    assert (rate.before, rate.after, rate.change) == (4.0, 3.0, -0.25)
    assert [(one.name, one.before, one.after) for one in found.leaks] == [("rss", None, 640.0)]
    assert diff(before, experiment(4.4)).same_rate is True
    said = oomctl("capacity", "experiment", "diff", str(kept(tmp_path / "a", before)), str(kept(tmp_path / "b", after)))
    assert said.code == 0, said.err
    assert "-25.00%" in said.out


def test_a_folder_goes_on_with_what_was_asked_and_nothing_else(tmp_path: Path) -> None:
    asked = Settings(root=tmp_path, launch="vllm serve m", url=None, slo=SLO)
    begun = experiment()
    begun.asked = asked.asked()
    begun.steps.append(step(7, status="aborted"))
    Folder(tmp_path).keep(begun)
    # Aborted steps are tried again; the file keeps them in their order.
    assert [each.number for each in Folder(tmp_path).resume(asked).steps] == [3, 5, 10]
    assert [each.number for each in read_experiment(tmp_path).steps] == [3, 5, 7, 10]
    with pytest.raises(OomctlError, match="another launch"):
        Folder(tmp_path).resume(Settings(root=tmp_path, launch="vllm serve other", url=None, slo=SLO))


def test_what_a_worker_says_is_text_on_the_page() -> None:
    found = experiment()
    found.model = "<script>alert(1)</script>\x1b[31m"
    found.steps.append(step(7, reason="<b>no</b>"))
    made = page(found)
    assert "<script" not in made
    assert "<b>" not in made
    assert "\x1b" not in made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--launch", "a", "--url", "http://b", "-o", "dir"), "one server is needed"),
        (("--launch", "a", "-o", "dir", "--slo", "p99=2s"), "--slo does not know"),
        (("diff", "absent", "absent"), "no such file"),
    ],
)
def test_bad_usage_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    result = oomctl("capacity", "experiment", *arguments, cwd=tmp_path)
    result.assert_fails(3 if arguments[0] == "diff" else 2, said)
    assert list(tmp_path.glob("dir")) == []
