"""A real containerd for tests, with its own root, state, socket, images and network, all removed at the end.

It runs in its own network namespace, connected to the machine's by a veth pair, so that tests reach the addresses of
its pods and no packet leaves the machine. `crash` and `restart` leave its containers running.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.support.containers.containerdsettings import SETTINGS, SETTINGS_OF_2
from tests.support.containers.mirror import Mirror
from tests.support.containers.ociimages import PAUSE, ImageSource, layout, write_archive

PAUSE_IMAGE = "podfit.test/pause:1"
# In the process runtime, `host` means the node's own files; it exists here too, so that tests run on both runtimes.
IMAGES = [
    ImageSource(PAUSE_IMAGE, PAUSE, ()),
    ImageSource("registry.k8s.io/pause:3.10", PAUSE, ()),
    ImageSource("docker.io/library/busybox:latest"),
    ImageSource("docker.io/library/host:latest"),
    ImageSource("docker.io/library/nginx:1.25", PAUSE, ()),
    ImageSource("docker.io/library/app:user", user="65534"),
    ImageSource("docker.io/library/app:signal", stop_signal="SIGUSR1"),
]
REGISTRIES = ("docker.io", "registry.k8s.io", "podfit.test")
NEEDED = ("ctr", "runc", "busybox", "ip", "nsenter")
CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
START_S = 30.0
PROGRAM = "PODFIT_CONTAINERD"
"""The environment variable with the path of a containerd to use instead of the installed one, with its shim in the same
folder."""


def program() -> str:
    return os.environ.get(PROGRAM) or "containerd"


def missing() -> str:
    """The requirements of these tests that this machine lacks; "" if there are none."""
    if os.geteuid() != 0:
        return "needs root"
    lacking = [name for name in (program(), *NEEDED) if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    if not any(Path(folder, "ptp").exists() for folder in CNI_FOLDERS):
        return "needs containernetworking-plugins"
    return ""


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _version() -> str:
    """The version, from output such as `containerd github.com/containerd/containerd 1.6.20~ds1 …`."""
    return _run(program(), "--version").split()[2].lstrip("v")


class Containerd:
    def __init__(self, folder: Path, snapshotter: str = "overlayfs", images: list[ImageSource] | None = None) -> None:
        self.folder = folder
        # In a folder with a short name: a socket's path is limited to 104 characters, and tests have long names.
        self.socket = Path(tempfile.mkdtemp(prefix="podfit-")) / "containerd.sock"
        self.endpoint = f"unix://{self.socket}"
        self._snapshotter, self._images = snapshotter, images or IMAGES
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""
        """The version number of containerd, such as 1.6.20."""
        self.mirror: Mirror
        """The registry that it pulls from: test images under the names of well-known registries."""
        self.network = ""
        self._number = 0

    @property
    def host_address(self) -> str:
        """This machine's address on the runtime's network."""
        return f"10.200.{self._number}.1"

    @property
    def node_address(self) -> str:
        """The address at which host ports of its node are reached."""
        return f"10.200.{self._number}.2"

    # --- life
    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.version = _version()
        self._make_network()
        images = layout(self._images, Path(str(shutil.which("busybox"))))
        self.mirror = Mirror(self.host_address, images)
        self.mirror.stand_in(self.folder / "certs.d", REGISTRIES)
        self._write_settings()
        self.launch()
        archive = self.folder / "images.tar"
        write_archive(archive, images)
        self._import(archive)

    def launch(self) -> None:
        """Starts the daemon, also after `crash`."""
        with (self.folder / "log").open("ab") as log:
            command = ("nsenter", f"--net=/run/netns/{self.network}", program(), "-c", f"{self.folder}/config.toml")
            # containerd finds its shims on the PATH.
            path = f"{Path(str(shutil.which(program()))).parent}:{os.environ['PATH']}"
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PATH": path}, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"containerd did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        done = subprocess.run([*self._ctr(), "version"], capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    def crash(self) -> None:
        self._end(signal.SIGKILL)

    def hang(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def restart(self) -> None:
        self._end(signal.SIGTERM)
        self.launch()

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            self._process.wait(START_S)
            self._process = None

    def stop(self) -> None:
        """Stops remaining pods and the daemon, and removes its network."""
        self.end_pods()
        self._end(signal.SIGKILL)
        self._end_shims()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], capture_output=True, timeout=60, check=False)
        if self.network:
            subprocess.run(["ip", "netns", "delete", self.network], capture_output=True, timeout=60, check=False)
            self.mirror.stop()
        for folder in (self.folder, self.socket.parent):
            shutil.rmtree(folder, ignore_errors=True)

    def end_pods(self) -> None:
        with suppress(subprocess.SubprocessError, OSError):
            if self._process is not None:
                self._end_tasks()

    def _end_tasks(self) -> None:
        for name in _run(*self._ctr(), "tasks", "list", "-q").split():
            subprocess.run(
                [*self._ctr(), "tasks", "kill", "-s", "9", name], capture_output=True, timeout=30, check=False
            )

    def _end_shims(self) -> None:
        """Kills the shims, which outlive their daemon; the socket in their command line identifies them."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if b"/containerd-shim" in words.partition(b"\0")[0] and str(self.socket).encode() in words:
                    for child in (entry / f"task/{entry.name}/children").read_text().split():
                        os.kill(int(child), signal.SIGKILL)
                    os.kill(int(entry.name), signal.SIGKILL)

    # --- images
    def _ctr(self) -> list[str]:
        return ["ctr", "-a", str(self.socket), "-n", "k8s.io"]

    def _import(self, archive: Path) -> None:
        """Retries the import: the image store becomes available a moment after the socket."""
        command = [*self._ctr(), "images", "import", "--snapshotter", self._snapshotter, str(archive)]
        deadline = time.monotonic() + START_S
        while True:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"images cannot be imported: {done.stderr}")
            time.sleep(0.05)

    # --- settings
    def _write_settings(self) -> None:
        cni = self.folder / "cni"
        cni.mkdir(exist_ok=True)
        ranges = [[{"subnet": f"10.201.{self._number}.0/24"}]]
        ipam = {
            "type": "host-local",
            "dataDir": str(self.folder / "leases"),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        chain = [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        (cni / "10-test.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "test", "plugins": chain}))
        plugins = next(folder for folder in CNI_FOLDERS if Path(folder, "ptp").exists())
        fill = {
            "folder": self.folder,
            "socket": self.socket,
            "pause": PAUSE_IMAGE,
            "stream": self.node_address,
            "plugins": plugins,
            "snapshotter": self._snapshotter,
        }
        settings = SETTINGS if self.version < "2" else SETTINGS_OF_2
        (self.folder / "config.toml").write_text(settings.format(**fill))

    def _make_network(self) -> None:
        """Addresses: 10.200.N.1 for this machine, 10.200.N.2 for the namespace, and 10.201.N.0/24 for its pods."""
        for number in random.sample(range(1, 255), 60):
            name = f"podfit-test-{number}"
            if subprocess.run(["ip", "netns", "add", name], capture_output=True, timeout=60, check=False).returncode:
                continue
            self.network, self._number = name, number
            near, inside = f"pft{number}", ("nsenter", f"--net=/run/netns/{name}")
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "address", "add", f"10.200.{number}.1/24", "dev", near)
            _run("ip", "link", "set", near, "up")
            _run(*inside, "ip", "address", "add", f"10.200.{number}.2/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _run(*inside, "ip", "link", "set", device, "up")
            _run(*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
            _run("ip", "route", "add", f"10.201.{number}.0/24", "via", f"10.200.{number}.2")
            return
        raise RuntimeError("no network namespace for containerd can be made")
