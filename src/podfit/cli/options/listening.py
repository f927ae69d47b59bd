"""Chooses the port of a cluster's API server, and names the conflicting cluster if a port is in use.

A named cluster gets the default port if it is free and belongs to no other named cluster, otherwise another one. It
keeps that port, running or not: its kubeconfigs remain valid.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path

from podfit.cli.clusters import Cluster, held_by, home
from podfit.cli.printing.output import note
from podfit.kit.files.atomicfile import write_atomic
from podfit.kit.process.processes import listener, program
from podfit.kit.web.addresses import CannotListen, free_port

_USUAL = 6443


def own_port(cluster: Cluster) -> int:
    """The port of a named cluster that is started without `--listen`."""
    with _choosing():
        kept = _kept(_file(cluster))
        port = _free(kept or _USUAL, _kept_by_others(cluster) - {kept})
        if port != kept:
            write_atomic(_file(cluster), f"{port}\n".encode())
    if kept and port != kept:
        merge = f"podfit kubeconfig {cluster.option} --merge"
        note(f"port {kept} is in use{_by(kept)}: this cluster now listens on {port}; if you merged it, run `{merge}`")
    return port


@contextlib.contextmanager
def _choosing() -> Iterator[None]:
    """A lock for choosing a port, so that clusters that start at the same time choose different ones."""
    with (home() / "ports.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kept_by_others(cluster: Cluster) -> set[int]:
    return {_kept(file) for file in home().resolve().glob("*/port") if file != _file(cluster)}


def _free(wanted: int, kept: set[int]) -> int:
    port = free_port(0 if wanted in kept else wanted)
    while port in kept:
        port = free_port()
    return port


def explain(error: CannotListen, api_port: int) -> None:
    """Adds to the error which process listens on the port and, for the API server's port, what to do."""
    if error.errno != errno.EADDRINUSE:
        return
    advice = "; choose another port by --listen, or run `podfit up --name NAME` beside it"
    error.strerror = f"{error.strerror}{_by(error.port)}{advice if error.port == api_port else ''}"


def _by(port: int) -> str:
    pid = listener(port)
    if pid is None:
        return ""
    for folder in held_by(pid):
        return f" by {Cluster(folder).holder} of the data directory {folder}"
    return f" by {program(pid)} (pid {pid})"


def _file(cluster: Cluster) -> Path:
    return cluster.data_dir / "port"


def _kept(file: Path) -> int:
    """The port that the cluster has kept; 0 if none."""
    try:
        port = int(file.read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65536 else 0
