"""How the agent is switched on, and that it never fails the process it is loaded into."""

from pathlib import Path

import pytest

from oomctl.collectors.agent import settings, vllm
from oomctl.collectors.agent.process import start_ticks


def test_without_a_folder_it_is_off() -> None:
    assert settings.read({}) is None
    assert settings.read({"OOMCTL_RING": ""}) is None


def test_the_environment_is_read() -> None:
    found = settings.read(
        {"OOMCTL_RING": "/ring", "OOMCTL_WORKER": "w", "OOMCTL_INCARNATION": "b:1:2", "OOMCTL_TRACKED_REQUESTS": "0",
         "OOMCTL_RING_RECORDS": "99", "OOMCTL_INTERVAL_S": "0.5", "OOMCTL_SNAPSHOT": "1"}
    )  # fmt: skip
    assert found == settings.Settings(Path("/ring"), "w", "b:1:2", 99, 0, 0.5, True)


def test_a_process_names_its_own_incarnation() -> None:
    found = settings.read({"OOMCTL_RING": "/ring"})
    assert found is not None
    assert found.incarnation.endswith(f":{start_ticks()}")
    assert found.worker


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, ""),
        ({"OOMCTL_RING": "{missing}"}, "OOMCTL_RING is no directory"),
        ({"OOMCTL_RING": "{there}", "OOMCTL_INTERVAL_S": "often"}, "cannot attach: ValueError"),
        ({"OOMCTL_RING": "{there}"}, "cannot attach: ModuleNotFoundError"),
    ],
)
def test_it_never_raises(
    environment: dict[str, str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("OOMCTL_RING", "OOMCTL_INTERVAL_S"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OOMCTL_INCARNATION", "b:1:2")  # it is set for the children, and has to go again
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(missing=tmp_path / "missing", there=tmp_path))
    vllm.register()
    error = capfd.readouterr().err
    assert told in error
    assert error.count("\n") == bool(told)
    assert list(tmp_path.iterdir()) == []
