"""A worker needs the agent and nothing else: it is installed with --no-deps."""

import subprocess
import sys

from tests.working_tree import ROOT

IMPORT_ALL = """
import sys, importlib, pathlib
sys.path.insert(0, {source!r})
before = set(sys.modules)
for path in pathlib.Path({folder!r}).glob("[a-z]*.py"):
    importlib.import_module("oomctl.collectors.agent." + path.stem)
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before - {{"__mp_main__"}}}}
print(*sorted(loaded - set(sys.stdlib_module_names)))
"""


def test_the_agent_imports_the_standard_library_alone() -> None:
    code = IMPORT_ALL.format(source=str(ROOT / "src"), folder=str(ROOT / "collectors" / "agent"))
    # -S leaves out site-packages: anything else could not be found.
    done = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["oomctl"]


def test_dormant_it_loads_next_to_nothing() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from oomctl.collectors.agent.vllm import register;"
        " before = set(sys.modules); register(); print(len(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("0", "")
