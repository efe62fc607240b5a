"""What tests on a real engine share. They run by `make test-engine`, which installs the engine; else they are skipped."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.agent_site import install_agent

HERE = Path(__file__).parent
ENGINE = os.environ.get("OOMCTL_ENGINE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engine)
            if not ENGINE:
                item.add_marker(pytest.mark.skip(reason="needs a real engine: make test-engine"))


@pytest.fixture(scope="session")
def engine() -> Path:
    """The virtual environment that holds vLLM."""
    assert ENGINE
    return Path(ENGINE).absolute()


@pytest.fixture(scope="session")
def model(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([engine / "bin" / "python", HERE / "make_model.py", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def agent_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This oomctl as `pip install --no-deps` leaves it in a worker, in a folder for PYTHONPATH."""
    return install_agent(tmp_path_factory.mktemp("agent"))
