"""Other settings on a recorded run: an answer only where the model fails as the run did."""

from oomctl.analyzers.allocator.model.settings import Settings
from oomctl.analyzers.allocator.model.whatif import ask, whatif
from tests.allocator.maker import MIB
from tests.allocator.test_model import fragmented


def test_what_if() -> None:
    snapshot = fragmented().snapshot()
    found = ask(snapshot, 0, Settings(expandable=True))
    assert (found.model.parted_at, found.room_bytes, found.status) == (None, 200 * MIB, "fits")
    assert ask(snapshot, 0, Settings(max_split_bytes=150 * MIB)).status == "does_not_fit"
    same = whatif(snapshot, 0, Settings(), 200 * MIB)
    assert (same.fits, same.failed_at, same.failed_bytes) == (False, len(snapshot.histories[0]) - 1, 100 * MIB)
    other = whatif(snapshot, 0, Settings(expandable=True), 200 * MIB)
    assert other.fits and other.peak_reserved_bytes <= 200 * MIB


def test_what_if_of_a_failure_that_the_model_does_not_see() -> None:
    """The holes were made before the history began: asked for anew, what lives leaves none, under any settings."""
    for keep in (1, 3):
        run = fragmented()
        run.keep = keep
        assert ask(run.snapshot(), 0, Settings(expandable=True)).status == "not_reproduced"


def test_what_if_of_a_run_that_did_not_fail() -> None:
    run = fragmented()
    run.trace.pop()
    assert ask(run.snapshot(), 0, Settings(expandable=True)).status == "nothing_failed"
    assert ask(run.snapshot(), 0, Settings(expandable=True), 1000 * MIB).status == "nothing_failed"
    assert ask(run.snapshot(), 0, Settings(expandable=True), 60 * MIB).status == "does_not_fit"


def test_what_if_beyond_the_failure() -> None:
    """What the program did after its failure it would not have done: a failure there is no answer."""
    run = fragmented()
    for _ in range(2):
        run.alloc(90 * MIB)
    assert ask(run.snapshot(), 0, Settings(expandable=True)).status == "fits"
