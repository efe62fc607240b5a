"""What the engine itself holds in its prefix cache, told on a signal; and a wire that loses what it is told to lose."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import zmq

WANTED_S = 30
PROBE = '''\
"""In each process of the engine: on SIGUSR1 the hashes of the blocks that its pool has cached go into a file."""
import gc, json, os, signal

def tell(number, frame):
    gc.unfreeze()  # vLLM freezes what it made at its start, which hides it
    hashes = [
        key[:-4][-8:].hex()
        for pool in gc.get_objects() if type(pool).__name__ == "BlockPool"
        for key in pool.cached_block_hash_to_block._cache
    ]
    path = f"{os.environ['RESIDENT_FOLDER']}/{os.getpid()}"
    with open(path + ".part", "w") as file:
        json.dump(hashes, file)
    os.replace(path + ".part", path + ".json")

signal.signal(signal.SIGUSR1, tell)
'''


class Probe:
    """Asks the engine's core for the blocks that it has cached (vLLM: BlockPool.cached_block_hash_to_block).

    Args:
        folder: An empty one.

    Attributes:
        environment: What the engine has to be started with.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(PROBE)
        self.environment = {"PYTHONPATH": str(folder), "RESIDENT_FOLDER": str(folder)}

    def hashes(self, core: int) -> set[str]:
        """As hex, of the process that holds the scheduler."""
        told = self._folder / f"{core}.json"
        told.unlink(missing_ok=True)
        os.kill(core, signal.SIGUSR1)
        deadline = time.monotonic() + WANTED_S
        while not told.exists():
            assert time.monotonic() < deadline, "the engine does not tell"
            time.sleep(0.05)
        return set(json.loads(told.read_text()))


class LossyWire:
    """Stands between a publisher and its subscribers, and loses two messages of seven while it is leaky.

    Args:
        endpoint: The publisher's.

    Attributes:
        endpoint: Where subscribers connect.
        leaky: Whether it loses any.
        lost: How many it has lost.
    """

    def __init__(self, endpoint: str) -> None:
        self.leaky = False
        self.lost = 0
        self._context = zmq.Context()
        self._in = self._context.socket(zmq.SUB)
        self._in.setsockopt(zmq.SUBSCRIBE, b"")
        self._in.connect(endpoint)
        self._out = self._context.socket(zmq.PUB)
        self.endpoint = f"tcp://127.0.0.1:{self._out.bind_to_random_port('tcp://127.0.0.1')}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _pass_on(self) -> None:
        while not self._ended.is_set():
            if self._in.poll(100):
                frames = self._in.recv_multipart()
                if self.leaky and int.from_bytes(frames[1], "big") % 7 in (3, 4):
                    self.lost += 1
                else:
                    self._out.send_multipart(frames)
