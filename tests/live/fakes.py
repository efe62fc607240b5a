"""A made-up file system: processes of /proc, and memory cgroups of either version."""

import shutil
from pathlib import Path

from oomctl.collectors.live.processes import INITIAL_PID_NAMESPACE

GIB = 1 << 30
MOUNTS = {
    1: "35 31 0:33 {top} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n",
    2: "32 31 0:29 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
}
FILES = {
    1: {"current": "usage_in_bytes", "limit": "limit_in_bytes", "peak": "max_usage_in_bytes"},
    2: {"current": "current", "limit": "max", "peak": "peak"},
}
NO_LIMIT = {1: "9223372036854771712", 2: "max"}


class FakeHost:
    """A host's files under a folder.

    Args:
        root: The folder.
        version: Of its memory cgroups; 0 for none.
        top: Which cgroup lies at the mount point.
        kills: For memory, on the whole host.
    """

    def __init__(self, root: Path, version: int = 2, top: str = "/", kills: int = 0) -> None:
        self.root = root
        self.version = version
        self.proc = root / "proc"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "mountinfo").write_text(MOUNTS[version].format(top=top) if version else "")
        (self.proc / "meminfo").write_text(f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {16 << 20} kB\n")
        self.host_kills(kills)

    def host_kills(self, kills: int) -> None:
        (self.proc / "vmstat").write_text(f"nr_free_pages 7\noom_kill {kills}\n")

    def namespace(self, name: str = INITIAL_PID_NAMESPACE) -> None:
        """In which process ids are counted."""
        (self.proc / "self" / "ns").mkdir()
        (self.proc / "self" / "ns" / "pid").symlink_to(name)

    def logs(self, text: str) -> None:
        """The kernel says something."""
        (self.root / "dev").mkdir(exist_ok=True)
        with (self.root / "dev" / "kmsg").open("a") as file:
            file.writelines(f"6,{number},7,-;{line}\n SUBSYSTEM=x\n" for number, line in enumerate(text.splitlines()))

    def process(
        self,
        pid: int,
        cgroup: str = "/",
        *arguments: str,
        rss_bytes: int = GIB,
        name: str = "python3",
        parent: int = 1,
        ticks: int | None = None,
        state: str = "S",
        environment: dict[str, str] | None = None,
        ports: tuple[int, ...] = (),
    ) -> None:
        """A process; without an environment it is another user's. Of its ports it listens on the first only."""
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "net").mkdir(exist_ok=True)
        fields = [state, str(parent), *["0"] * 17, str(pid * 10 if ticks is None else ticks), "0"]
        (folder / "stat").write_text(f"{pid} (a) {name}) {' '.join(fields)}\n")
        (folder / "comm").write_text(f"{name}\n")
        (folder / "status").write_text(f"Name:\t{name}\nNSpid:\t{pid}\nVmRSS:\t{rss_bytes >> 10} kB\nVmSwap:\t0 kB\n")
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in arguments))
        lines = {0: "", 1: f"8:pids:/x\n4:memory:{cgroup}\n0::/elsewhere\n", 2: f"0::{cgroup}\n"}
        (folder / "cgroup").write_text(lines[self.version])
        if environment is not None:
            (folder / "environ").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in environment.items()))
        sockets = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
        for number, port in enumerate(ports):
            inode = pid * 1000 + number
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
            listens = "0A" if number == 0 else "01"
            sockets.append(f"   {number}: 0100007F:{port:04X} 00000000:0000 {listens} 0:0 0:0 0 0 0 {inode} 1")
        (folder / "net" / "tcp").write_text("\n".join(sockets) + "\n")

    def dies(self, pid: int, status: int | None = None) -> None:
        """It is gone; with a status, its parent has not collected it yet."""
        folder = self.proc / str(pid)
        if status is None:
            shutil.rmtree(folder)
        else:
            fields = ["Z", "1", *["0"] * 17, str(pid * 10), *["0"] * 29, str(status)]
            (folder / "stat").write_text(f"{pid} (python3) {' '.join(fields)}")
            (folder / "status").write_text("Name:\tpython3\nState:\tZ (zombie)\n")

    def cgroup(self, path: str, current: int = 0, limit: int | None = None, kills: int = 0) -> Path:
        """A cgroup at its place below the mount point."""
        folder = self.root / "sys/fs/cgroup" / ("memory" if self.version == 1 else "") / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        names = FILES[self.version]
        (folder / f"memory.{names['current']}").write_text(f"{current}\n")
        (folder / f"memory.{names['limit']}").write_text(f"{limit if limit is not None else NO_LIMIT[self.version]}\n")
        (folder / f"memory.{names['peak']}").write_text(f"{current + 1}\n")
        if self.version == 1:
            (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
        else:
            (folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom {kills}\noom_kill {kills}\n")
            (folder / "memory.pressure").write_text("some avg10=12.50 avg60=0 avg300=0 total=1\nfull avg10=1.00 total=1\n")
        return folder
