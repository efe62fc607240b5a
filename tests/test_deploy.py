"""deploy/: as far as it can be held to the code without a cluster, a builder or a booted systemd."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from oomctl.cli.app import app
from oomctl.config import file
from oomctl.config.resolve import resolve
from oomctl.config.settings import settings
from tests.working_tree import ROOT

DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
UNIT = DEPLOY / "systemd" / "oomctl@.service"
MANIFESTS = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
NEEDED = {
    "ConfigMap": ("data",),
    "Pod": ("spec.containers",),
    "DaemonSet": ("spec.selector.matchLabels", "spec.template.spec"),
}


def _command() -> Any:
    return typer.main.get_command(app)


def _pods() -> list[dict[str, Any]]:
    return [
        m["spec"] if m["kind"] == "Pod" else m["spec"]["template"]["spec"] for m in MANIFESTS if m["kind"] != "ConfigMap"
    ]


def _containers() -> list[dict[str, Any]]:
    return [each for spec in _pods() for each in (*spec.get("initContainers", []), *spec["containers"])]


def _instructions() -> list[tuple[str, str]]:
    """(keyword, rest) of each instruction, its lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", CONTAINERFILE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())]


def test_the_manifests_have_what_their_kinds_need() -> None:
    assert sorted(manifest["kind"] for manifest in MANIFESTS) == ["ConfigMap", "DaemonSet", "Pod"]
    for manifest in MANIFESTS:
        assert manifest["apiVersion"] == {"DaemonSet": "apps/v1"}.get(manifest["kind"], "v1")
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", manifest["metadata"]["name"])
        for path in NEEDED[manifest["kind"]]:
            found: Any = manifest
            for word in path.split("."):
                found = found[word]
            assert found, path
    (daemon,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "DaemonSet")
    selected = daemon["spec"]["selector"]["matchLabels"]
    assert selected.items() <= daemon["spec"]["template"]["metadata"]["labels"].items()


def test_each_volume_is_mounted_and_each_mount_is_of_a_volume() -> None:
    for spec in _pods():
        containers = [*spec.get("initContainers", []), *spec["containers"]]
        mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        assert spec["enableServiceLinks"] is False


def test_shell_in_manifests_and_the_unit_is_shell() -> None:
    scripts = [script for each in _containers() for script in each["args"]]
    scripts.append(shlex.split(_unit()["ExecStart"])[2])
    assert len(scripts) == 4
    for script in scripts:
        subprocess.run(["sh", "-n", "-c", script], check=True, timeout=10)


def test_the_daemonset_records_each_life_once_and_again_where_its_recorder_ended(tmp_path: Path) -> None:
    """GIVEN its script and a stand-in WHEN it goes round twice THEN one recorder a life, and a new one once it ended."""
    (script,) = (args for each in _containers() if "flock" in (args := each["args"][0]))
    (tmp_path / "oomctl").write_text(
        '#!/bin/sh\nif [ "$2" = --format ]; then printf "pid,engine\\n$LIFE,vllm\\n"; exit; fi\n'
        'echo "$2 $4" >> "$DONE"; trap "exit 0" TERM; sleep $LASTS & wait $!\n'
    )
    (tmp_path / "oomctl").chmod(0o755)
    (tmp_path / "run").mkdir()
    rounds = script.replace("/recordings", str(tmp_path)).replace("/run/oomctl", str(tmp_path / "run"))
    rounds = rounds.replace("while true", "for round in 1 2").replace("sleep 30", "sleep 1").replace("sleep 5", "sleep 0")
    rounds = rounds.replace("/tmp/$life", f"{tmp_path}/$life")
    for lasts, expected in (("20", 1), ("0", 2)):
        done = tmp_path / f"done-{lasts}"
        environment = {
            "PATH": f"{tmp_path}:/usr/bin:/bin", "LIFE": str(os.getpid()), "DONE": str(done), "LASTS": lasts,
        }  # fmt: skip
        process = subprocess.Popen(["sh", "-c", f"{rounds}\nkill -TERM $$"], env=environment, start_new_session=True)
        process.wait(60)
        begun = (Path("/proc/self/stat").read_text().rpartition(") ")[2]).split()[19]
        assert done.read_text().splitlines() == [f"{os.getpid()} {tmp_path}/{os.getpid()}-{begun}"] * expected


def _told() -> list[str]:
    """All commands of oomctl that deploy/ runs, each a line."""
    scripts = [script for each in _containers() for script in each["args"]] + [_unit()["ExecStart"]]
    return [line for script in scripts for line in re.findall(r"oomctl(?:-gpu)? (attach[^|\n&;']*)", script)]


def test_the_options_that_are_used_exist() -> None:
    known = {flag for setting in settings(_command()) if setting.command == ("attach",) for flag in setting.parameter.opts}
    used = {flag for line in _told() for flag in re.findall(r"(?<!\S)--?[a-z][\w-]*", line)}
    assert used - known - {"--property", "--value"} == set()
    assert {"-o", "--output", "--log-format"} <= used


def test_the_configuration_of_the_sidecar_is_one(tmp_path: Path) -> None:
    (config,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    (tmp_path / "a.toml").write_text(config["data"]["oomctl.toml"])
    found = resolve(_command(), ["attach"], tmp_path / "a.toml")
    assert found.keys() == {".".join(entry.path) for entry in file.read(tmp_path / "a.toml")}
    assert str(found["attach.serve-metrics"].value) in _containers()[1]["livenessProbe"]["exec"]["command"][2]


def test_variables_that_are_set_are_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = {"OOMCTL_RING", "OOMCTL_CONFIG", "POD_NAME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
    for container in _containers():
        for entry in container.get("env", []):
            if entry["name"] not in agents:
                monkeypatch.setenv(entry["name"], entry["value"])
    assert {name.origin for name in resolve(_command(), ["attach"], None).values()} == {
        "OOMCTL_ATTACH_BUDGET",
        "OOMCTL_ATTACH_AGE",
    }


@pytest.mark.parametrize("status", [200, 503, None])
def test_the_probe_fails_where_the_recorder_hangs_and_not_where_there_is_none(status: int | None) -> None:
    script = _containers()[1]["livenessProbe"]["exec"]["command"][2]
    fake = (
        f"import urllib.request, urllib.error\ndef urlopen(url, timeout):\n  assert url.endswith('/healthz')\n"
        f"  if {status} == 503: raise urllib.error.HTTPError(url, 503, 'no', None, None)\n"
        f"  if {status} is None: raise urllib.error.URLError('refused')\nurllib.request.urlopen = urlopen\n"
    )
    done = subprocess.run(["python3", "-c", fake + script], timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == (status == 503), done.stderr


def test_the_container_is_built_of_what_is_there_and_runs_as_nobody_in_particular() -> None:
    words = _instructions()
    copied = [part for word, rest in words if word == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    assert {"pyproject.toml", "setup.py", "src", "collectors", "analyzers", "schemas", "queries"} <= set(copied)
    assert all((ROOT / path).exists() for path in copied)
    stages = [at for at, (word, _) in enumerate(words) if word == "FROM"]
    assert len(stages) == 2
    last = dict(words[stages[-1] :])
    user, _, group = last["USER"].partition(":")
    assert int(user) > 999 and int(group) > 999
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert last["ENTRYPOINT"] == '["oomctl"]' and "oomctl" in scripts
    (base,) = (rest.partition("=")[2] for word, rest in words if word == "ARG")
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", base)
    for word, rest in words:
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True, timeout=10)


def _unit() -> dict[str, str]:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "oomctl@vllm.service"
    unit.write_text(UNIT.read_text(encoding="utf-8"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "oomctl@vllm" in line]) == (0, [])
