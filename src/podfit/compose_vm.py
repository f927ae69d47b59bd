"""The VM runtime of `podfit up`: a separate process, which ends with podfit and leaves its VMs running. If it exits or
is killed, it is restarted and adopts its VMs.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from podfit.images.store import IMAGES
from podfit.kit.backoff import Backoff
from podfit.kit.badsetting import BadSetting
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.files.dirlock import holder_of
from podfit.vm import LOCK

log = logging.getLogger(__name__)

HANDLER = "vm"
FOLDER = "vm"
OVERHEAD = {"memory": "160Mi"}
"""QEMU's memory overhead beyond the guest's memory. Its CPU time counts towards the VM's own limit."""
LONGEST_SOCKET = 100
START_S, STOP_S = 60.0, 15.0
FIRST_RESTART_S, LAST_RESTART_S, STEADY_S = 0.1, 30.0, 60.0
_PR_SET_PDEATHSIG = 1
_ENDING_WITH_PARENT = (
    *(sys.executable, "-I", "-S", "-c"),
    f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {signal.SIGTERM:d}, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""A command prefix that makes the kernel kill the child when podfit dies, so that no runtime is left holding its
folder. The child sets this itself: a function between fork and exec would run gRPC's fork handlers in podfit, whose
channels are in use."""


def socket_of(data_dir: Path) -> Path:
    """In the data directory, unless the path is too long for a socket."""
    path = data_dir.absolute() / FOLDER / "vm.sock"
    if len(str(path)) <= LONGEST_SOCKET:
        return path
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return Path(f"/run/podfit/vm-{mark}.sock")


def runtime_class() -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": HANDLER},
        "handler": HANDLER,
        "overhead": {"podFixed": OVERHEAD},
    }


class VmProcess:
    def __init__(self, data_dir: Path, images: Path, accel: str = "tcg") -> None:
        self.socket, self._lock = socket_of(data_dir), data_dir / FOLDER / LOCK
        self._process: asyncio.subprocess.Process | None = None
        self._command = [sys.executable, "-m", "podfit.cli.main", "vm-runtime", "--data-dir", str(data_dir / FOLDER)]
        self._command += ["--listen", self.endpoint, "--images", str(images), "--accel", accel]
        self._tasks = Tasks("vm runtime")

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    async def start(self) -> None:
        """Returns when the runtime responds. Raises BadSetting with its output if it exits instead."""
        if not await self._started():
            raise BadSetting("--vm: the VM runtime did not start; it said why above")
        self._tasks.start(self._keep_running(), "restarts")

    async def _started(self) -> bool:
        await self._wait_for_predecessor()
        # Ctrl-C stops podfit only, which then stops its runtime.
        self._process = await asyncio.create_subprocess_exec(
            *_ENDING_WITH_PARENT, *self._command, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line.startswith(b"ready"):
            await self._end()
            return False
        return True

    async def _keep_running(self) -> None:
        """Restarts a runtime that exited: immediately at first, then with increasing delay while it keeps exiting
        early.
        """
        loop, backoff = asyncio.get_running_loop(), Backoff(FIRST_RESTART_S, LAST_RESTART_S)
        while True:
            began = loop.time()
            if self._process is not None:
                code = await self._process.wait()
                log.warning("the VM runtime has ended (%d) and is started again; its VMs go on", code)
            if loop.time() - began > STEADY_S:
                backoff.forget()
            await asyncio.sleep(backoff.next())
            try:
                await self._started()
            except OSError as error:
                log.warning("the VM runtime cannot be started: %s", error)

    async def _wait_for_predecessor(self) -> None:
        """The runtime of a killed podfit exits by itself, but not immediately."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                while holder_of(self._lock) is not None:
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._end()

    async def _end(self) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._process = None


@asynccontextmanager
async def vms_reached(data_dir: Path) -> AsyncIterator[None]:
    """Runs the VM runtime of a data directory that has one, for as long as its VMs are needed."""
    if not (data_dir / FOLDER / "state.db").exists():
        yield
        return
    runtime = VmProcess(data_dir, data_dir / IMAGES)
    await runtime.start()
    try:
        yield
    finally:
        await runtime.stop()
