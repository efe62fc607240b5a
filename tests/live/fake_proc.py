"""A /proc of one's own making."""

from pathlib import Path

CONTAINER = "c" * 64


class FakeProc:
    """Processes in a folder.

    Args:
        root: An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        parent: int,
        *arguments: str,
        environment: dict[str, str] | None = None,
        ports: tuple[int, ...] = (),
        cgroup: str = "0::/",
        state: str = "S",
    ) -> None:
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "net").mkdir()
        (folder / "stat").write_text(f"{pid} (a) name) {state} {parent} 1 1" + " 0" * 15 + f" {pid * 10} 0\n")
        (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in arguments) + b"\0" if arguments else b"")
        (folder / "cgroup").write_text(cgroup + "\n")
        if environment is not None:
            (folder / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environment.items()))
        lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
        for number, port in enumerate(ports):
            inode = pid * 1000 + number
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
            state_hex = "0A" if number == 0 else "01"
            lines.append(f"   {number}: 0100007F:{port:04X} 00000000:0000 {state_hex} 0:0 0:0 0 0 0 {inode} 1")
        (folder / "net" / "tcp").write_text("\n".join(lines) + "\n")
