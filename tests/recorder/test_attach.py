"""The real commands beside a real process: attach, freeze, triage and query of what they left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.run import oomctl
from tests.recorder.stand_in import Time, Worker, recorder
from tests.scenarios import render_log
from tests.working_tree import ROOT

WORKER = """
import sys, time
from pathlib import Path
from tests.recorder.stand_in import Worker
worker = Worker(Path(sys.argv[1]))
worker.phase("loading", "weights_loaded", "kv_allocated", "ready")
for step_id in range(50):
    worker.step(step_id, prefill=512)
print("serves", flush=True)
for line in sys.stdin:
    if line == "oom\\n":
        worker.oom("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 "
                   "GiB is free. Including non-PyTorch memory, this process has 78.15 GiB memory in use.")
    elif line == "end\\n":
        worker.phase("draining", "stopped")
        worker.rings.close()
        break
    print("done", flush=True)
"""


@contextmanager
def running(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        env=os.environ | {"OOMCTL_RING": str(folder)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        try:
            yield process
        finally:
            process.kill()


def tell(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    process.stdout.readline()


def attached(pid: int, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "oomctl", "attach", str(pid), *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path, pattern: str) -> Path:
    for _ in range(600):
        for found in path.glob(pattern):
            return found
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} in {path}")


def test_attach_records_and_ends_in_order(tmp_path: Path) -> None:
    with running(tmp_path / "rings") as worker:
        process = attached(worker.pid, "-o", str(tmp_path / "rec"))
        wait_for(tmp_path / "rec" / "live", "*.live")
        twice = oomctl("attach", str(worker.pid), "-o", str(tmp_path / "rec"))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, ""), err
        twice.assert_fails(4, "another recorder writes there")
        ran = oomctl("query", str(tmp_path / "rec"), "-c", "SELECT count(*) AS n, max(step_id) AS last FROM step", "--json")
        assert json.loads(ran.out) == [{"n": 50, "last": 49}], ran.err
        frozen = tmp_path / "part.parquet"
        ran = oomctl("freeze", str(tmp_path / "rec"), "--around", "now", "-o", str(frozen))
        assert ran.code == 0, ran.err
        ran = oomctl("query", str(frozen), "-c", "SELECT count(*) AS n FROM step", "--json")
        assert json.loads(ran.out) == [{"n": 50}]
        assert json.loads(oomctl("triage", str(tmp_path / "rec"), "--json").out)["incidents"] == []


def test_an_oom_is_frozen_told_and_triaged_from_the_ring_alone(tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook = f"{sys.executable} -c \"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())\""
    with running(tmp_path / "rings") as worker:
        process = attached(worker.pid, "-o", str(tmp_path / "rec"), "--hook", hook)
        wait_for(tmp_path / "rec" / "live", "*.live")
        tell(worker, "oom")
        worker.kill()
        worker.wait()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    (file,) = (tmp_path / "rec" / "incidents").iterdir()
    incident = json.loads(told.read_text())
    assert incident["incident_file"] == str(file)
    assert incident["incident_id"] == file.stem
    for place in (file, tmp_path / "rec"):
        document = json.loads(oomctl("triage", str(place), "--json").out)
        (found,) = document["incidents"]
        assert (found["verdict"], found["resource"], found["worker"]) == ("oom", "device", "w0")
        assert found["requested_bytes"] == 2 << 30
        assert found["survived"] is False
        assert found["phase"] == "serving"


def test_an_orderly_shutdown_is_no_incident(tmp_path: Path) -> None:
    with running(tmp_path / "rings") as worker:
        process = attached(worker.pid, "-o", str(tmp_path / "rec"))
        wait_for(tmp_path / "rec" / "live", "*.live")
        tell(worker, "end")
        worker.wait()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert list((tmp_path / "rec" / "incidents").iterdir()) == []
    assert json.loads(oomctl("triage", str(tmp_path / "rec"), "--json").out)["incidents"] == []


def test_a_log_is_followed_and_its_incident_frozen(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    text = render_log("warm_up_capture", seed=3)
    log.write_text(text[: len(text) // 3])
    settled = Time()
    beside = recorder(tmp_path / "rec", None, settled, os.getpid(), log=log)
    beside.round()
    with log.open("a") as file:
        file.write(text[len(text) // 3 :])
    for _ in range(5):
        beside.round()
    settled.now_s += 11
    beside.round()
    beside.close()
    (file_,) = (tmp_path / "rec" / "incidents").iterdir()
    whole = json.loads(oomctl("triage", str(log), "--json").out)["incidents"][0]
    for place in (file_, tmp_path / "rec"):
        (found,) = json.loads(oomctl("triage", str(place), "--json").out)["incidents"]
        for name in ("verdict", "class", "resource", "requested_bytes", "ts"):
            assert found[name] == whole[name]


def test_a_dead_worker_s_ring_is_read(tmp_path: Path) -> None:
    with running(tmp_path / "rings") as worker:
        worker.kill()
        worker.wait()
        pid = worker.pid
    oomctl("attach", str(pid), "-o", str(tmp_path / "rec")).assert_fails(2, "no such process")
    ran = oomctl("attach", str(pid), "-o", str(tmp_path / "rec"), "--rings", str(tmp_path / "rings"))
    assert ran.code == 0, ran.err
    assert "is gone and said nothing" in ran.err
    (file,) = (tmp_path / "rec" / "incidents").iterdir()
    (found,) = json.loads(oomctl("triage", str(file), "--json").out)["incidents"]
    assert (found["verdict"], found["resource"]) == (None, "host")
    assert found["confidence"] < 0.6


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    oomctl("attach", str(os.getpid()), "-o", str(tmp_path / "rec")).assert_fails(2, "nothing to record")
    oomctl("attach", "1", "-o", "x", "--log", "y", "--budget", "many").assert_fails(2, "--budget is no size")
    oomctl("freeze", str(tmp_path), "--around", "now", "-o", "x").assert_fails(3, "not a recording")
    oomctl("freeze", str(tmp_path), "--around", "soon", "-o", "x").assert_fails(2, "--around is no instant")
    assert not (tmp_path / "rec").exists()


def test_a_folder_of_recordings_is_read_whole(tmp_path: Path) -> None:
    for name in ("a", "b"):
        worker = Worker(tmp_path / f"rings-{name}", worker=name)
        worker.step(1)
        beside = recorder(tmp_path / "all" / name, tmp_path / f"rings-{name}", Time(), os.getpid())
        beside.round()
        beside.close()
    ran = oomctl("query", str(tmp_path / "all"), "-c", "SELECT DISTINCT worker FROM step ORDER BY 1", "--json")
    assert json.loads(ran.out) == [{"worker": "a"}] or json.loads(ran.out) == [{"worker": "a"}, {"worker": "b"}], ran.err


def test_what_stderr_tells_as_json_has_opentelemetrys_names_and_no_secret(tmp_path: Path) -> None:
    with running(tmp_path / "rings") as worker:
        page = "http://me:hunter2@127.0.0.1:1/metrics?token=hunter3"
        words = ("--log-format", "json", "--metrics", page, "--serve-metrics", "0")
        process = attached(worker.pid, "-o", str(tmp_path / "rec"), *words)
        wait_for(tmp_path / "rec" / "live", "*.live")
        tell(worker, "oom")
        wait_for(tmp_path / "rec" / "incidents", "*.parquet")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "hunter" not in err
    told = [json.loads(line) for line in err.splitlines()]
    by_name = {each["EventName"]: each for each in told}
    assert by_name.keys() >= {
        "oomctl.recording.begins", "oomctl.incident.sign", "oomctl.incident.frozen", "oomctl.source.state",
        "oomctl.recording.ends",
    }  # fmt: skip
    for each in told:
        assert each.keys() == {
            "Timestamp", "SeverityText", "SeverityNumber", "EventName", "Body", "Attributes", "Resource",
        }  # fmt: skip
        assert (each["SeverityText"], each["SeverityNumber"]) in (("INFO", 9), ("WARN", 13), ("ERROR", 17))
        assert each["Resource"]["service.name"] == "oomctl"
    frozen = by_name["oomctl.incident.frozen"]["Attributes"]
    assert Path(frozen["oomctl.file"]).stem == frozen["oomctl.incident.id"]
    ran = oomctl("attach", "999999999", "-o", str(tmp_path / "none"), "--log-format", "json", "--metrics", "none")
    assert (ran.code, json.loads(ran.err)["EventName"]) == (2, "oomctl.failed")
