"""Who is told of an incident: a command, or a URL; in a thread of its own, and what goes wrong is recorded."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.recorder.jobs import WAITING_HOOKS, Hook

INCIDENT = {"incident_id": "abc", "incident_file": "/rec/abc.parquet", "worker": "w0", "reason": "it's gone; $(rm -rf /)"}


class Listener:
    """A web hook's end.

    Attributes:
        got: What it was sent.
        answers: The status that it answers with.
        may_answer: Until then it is silent.
    """

    def __init__(self) -> None:
        self.got: list[tuple[str | None, Any]] = []
        self.answers = 204
        self.may_answer = threading.Event()
        self.may_answer.set()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.got.append((self.headers["Content-Type"], json.loads(body)))
                listener.may_answer.wait()
                self.send_response(listener.answers)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.may_answer.set()
    made.server.shutdown()


def told(command: str, *incidents: dict[str, Any]) -> list[str]:
    """What failed."""
    failed: list[str] = []
    hook = Hook(command, failed.append)
    for incident in incidents or (INCIDENT,):
        hook.tell(incident)
    hook.finish()
    return failed


def test_a_url_gets_a_post(listener: Listener) -> None:
    assert told(listener.url) == []
    assert listener.got == [("application/json", INCIDENT)]


def test_a_url_that_answers_with_an_error_is_a_failure(listener: Listener) -> None:
    listener.answers = 500
    (why,) = told(listener.url)
    assert "500" in why


def test_nobody_listens() -> None:
    (why,) = told("http://127.0.0.1:9/hook")
    assert "refused" in why.lower()


def test_a_command_gets_it_on_its_input_and_as_variables_and_no_shell_reads_it(tmp_path: Path) -> None:
    program = tmp_path / "hook.py"
    program.write_text(
        "import json, os, sys\n"
        "names = ('ID', 'FILE')\n"
        "seen = [json.load(sys.stdin), *(os.environ['OOMCTL_INCIDENT_' + name] for name in names), "
        "os.environ['OOMCTL_REASON'], sys.argv[1:]]\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(seen))\n"
    )
    assert told(f"{sys.executable} {program} 'one word' $HOME") == []
    expected = [INCIDENT, "abc", "/rec/abc.parquet", INCIDENT["reason"], ["one word", "$HOME"]]
    assert json.loads((tmp_path / "seen").read_text()) == expected


@pytest.mark.parametrize(
    ("command", "why"), [("/no/such/program", "No such file"), ("false", "status 1"), ("a 'b", "quot")]
)
def test_a_command_that_fails_is_told(command: str, why: str) -> None:
    (failed,) = told(command)
    assert why in failed


def test_those_that_are_too_many_are_counted_and_nobody_waits(listener: Listener) -> None:
    listener.may_answer.clear()
    failed: list[str] = []
    hook = Hook(listener.url, failed.append)
    for number in range(WAITING_HOOKS + 5):
        hook.tell({"incident_id": str(number)})
    assert 3 <= len(failed) <= 5  # one or two are on their way already
    assert set(failed) == {"too many incidents wait for the hook"}
    listener.may_answer.set()
    hook.finish()
    assert len(listener.got) + len(failed) == WAITING_HOOKS + 5
