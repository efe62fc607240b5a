"""An experiment's folder: its artifact, which is its state while it runs, and what lies beside it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from oomctl.experiment.settings import Settings
from oomctl.schemas import whole
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.experiment import SCHEMA, Experiment

ARTIFACT = "experiment.json"


class Folder:
    """The folder of one experiment.

    Args:
        root: Is made if it is not there.

    Attributes:
        root: As given.
        artifact: The file that `capacity experiment diff` and `--limits` read.
        rings: Where the worker's agent writes, if it has one.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.artifact = root / ARTIFACT
        self.rings = root / "rings"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make it, and be the one experiment in it.

        Raises:
            OomctlError: If it cannot be written to, or another experiment runs in it.
        """
        try:
            for folder in (self.root, self.rings):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OomctlError(
                f"cannot write there: {error.strerror} ({self.root})",
                "choose a folder that you may write to",
                ExitCode.ENVIRONMENT,
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise OomctlError(
                f"another experiment runs there ({self.root})", "end it first, or use another folder", ExitCode.ENVIRONMENT
            ) from None
        finally:
            os.close(descriptor)

    def resume(self, settings: Settings) -> Experiment:
        """What was reached so far; a new experiment where the folder holds none.

        Raises:
            OomctlError: If the folder holds an experiment that was asked for otherwise.
        """
        if not self.artifact.exists():
            return Experiment(asked=settings.asked(), slo=settings.slo, share=settings.share)
        found = read_experiment(self.artifact)
        other = [name for name, value in settings.asked().items() if found.asked.get(name) != value]
        if other:
            raise OomctlError(
                f"holds an experiment with another {', '.join(other)} ({self.root})",
                "repeat its options to go on with it, or choose another folder",
                ExitCode.USAGE,
            )
        # A step that a guard, a death or a person ended is tried again.
        found.steps = [step for step in found.steps if step.status != "aborted"]
        return found

    def keep(self, experiment: Experiment) -> None:
        """Write the artifact: the old one, or the new one, whole."""
        experiment.steps.sort(key=lambda step: step.number)
        whole.write(self.artifact, msgspec.json.format(msgspec.json.encode(experiment), indent=2) + b"\n")

    def life(self, name: str) -> Path:
        """A folder for one life of the worker: its log and its recording, numbered as they come."""
        taken = [int(path.name.partition("-")[0]) for path in self.root.glob("[0-9]*-*") if path.is_dir()]
        made = self.root / f"{max(taken, default=0) + 1:02}-{name}"
        made.mkdir(mode=0o700)
        return made


def read_experiment(path: Path) -> Experiment:
    """An artifact, or the folder that holds one.

    Raises:
        OomctlError: If it is unreadable, none, or of another schema.
    """
    if path.is_dir():
        path = path / ARTIFACT
    try:
        content = path.read_bytes()
        found = msgspec.json.decode(content, type=Experiment)
    except OSError as error:
        raise OomctlError(f"{(error.strerror or str(error)).lower()} ({path})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OomctlError(f"no experiment: {str(error)[:100]} ({path})", f"give the folder that holds {ARTIFACT}") from None
    if found.schema != SCHEMA:
        raise OomctlError(f'an experiment of schema "{found.schema[:40]}", not {SCHEMA} ({path})')
    return found
