"""Finds the clusters on this machine: their data directories, context names, and running processes.

The data directory of a named cluster is in a per-user location; others are given by `--data-dir`.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from podfit.cli.printing.output import usage_error
from podfit.kit.files.dirlock import Holder, holder_of
from podfit.kit.process.processes import all_pids, open_files

DEFAULT_DATA = Path("podfit-data")
CLUSTER_LOCK, AGENT_LOCK = "cluster.lock", "agent.lock"
"""An agent stores its files separately from a cluster's: both may use one data directory."""
ADMIN = "admin.kubeconfig"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")

# Absolute, because pods do not share this process's working directory.
DataDir = Annotated[
    Path,
    typer.Option("--data-dir", resolve_path=True, help="The folder with certificates, the store and the nodes' files."),
]
Name = Annotated[str, typer.Option("--name", help="The name of a cluster, which has its own data directory and port.")]


@dataclass(frozen=True)
class Cluster:
    data_dir: Path
    name: str = ""

    @property
    def context(self) -> str:
        return f"podfit-{self.name}" if self.name else "podfit"

    @property
    def option(self) -> str:
        """The command-line option that selects this cluster."""
        return f"--name {self.name}" if self.name else f"--data-dir {shlex.quote(str(self.data_dir))}"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / ADMIN

    @property
    def holder(self) -> Holder | None:
        return holder_of(self.data_dir / CLUSTER_LOCK)

    def document(self) -> dict[str, Any]:
        """Its administrator's kubeconfig, with the cluster's own name for cluster, user and context."""
        from podfit.client.kubeconfig import BadKubeconfig
        from podfit.client.merging import read_renamed

        if not self.kubeconfig.exists():
            raise BadKubeconfig(f"no cluster in {self.data_dir}: start it with `podfit up {self.option}`")
        return read_renamed(self.kubeconfig, self.context)

    def server(self) -> str:
        return str(self.document()["clusters"][0]["cluster"]["server"])


def home() -> Path:
    """The parent folder of named clusters: one folder each."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "podfit"


def chosen(name: str, data_dir: Path) -> Cluster:
    """The cluster selected by `--name` or `--data-dir`, of which a command line has at most one."""
    if not name:
        inside = data_dir.parent == home().resolve() and _NAME.fullmatch(data_dir.name)
        return Cluster(data_dir, data_dir.name if inside else "")
    if not _NAME.fullmatch(name):
        usage_error(f"--name {name!r}: at most 50 lower case letters, digits and '-', with no '-' at the ends")
    if data_dir != DEFAULT_DATA.resolve():
        usage_error("--name and --data-dir exclude each other: a named cluster has a data directory of its own")
    return Cluster(home().resolve() / name, name)


def named() -> list[Cluster]:
    folders = sorted(home().resolve().iterdir()) if home().is_dir() else []
    return [chosen("", folder) for folder in folders if (folder / ADMIN).exists()]


def known() -> list[Cluster]:
    """The named clusters, the one in the current folder, and others that run on the machine."""
    here = [DEFAULT_DATA.resolve()] if (DEFAULT_DATA / ADMIN).exists() else []
    running = [folder for pid in all_pids() for folder in held_by(pid)]
    return list(dict.fromkeys((*named(), *(chosen("", folder) for folder in (*here, *running)))))


def held_by(pid: int) -> list[Path]:
    """The data directories of the cluster that a process runs."""
    locks = {Path(file) for file in open_files(pid) if file.endswith(f"/{CLUSTER_LOCK}")}
    return [lock.parent for lock in locks if (holder := holder_of(lock)) is not None and holder.pid == pid]
