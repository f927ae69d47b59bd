"""podfit's components, each in its own process."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Part:
    """Starts one command, and waits for its ready line if it prints one."""

    def __init__(self, *arguments: str, ready: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "podfit.cli.main", *arguments], stdout=subprocess.PIPE if ready else None, text=True
        )
        if ready:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line.startswith("ready "), f"no ready line but {line!r}"

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)


class Etcd:
    """A real etcd on loopback."""

    def __init__(self, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        command = [
            str(shutil.which("etcd")),
            *("--data-dir", str(folder), "--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
            ),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
