"""`podfit down`: stops the pods that `podfit up` or `podfit agent` left running."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from podfit.cli.clusters import AGENT_LOCK, CLUSTER_LOCK, DEFAULT_DATA, Cluster, DataDir, Name, chosen
from podfit.cli.options.components import Verbose
from podfit.cli.options.connect import REFUSED
from podfit.cli.printing.output import echo, note, usage_error
from podfit.cli.run import run
from podfit.kit.files.dirlock import DirectoryLock, Holder, InUse

Force = Annotated[bool, typer.Option("--force", help="Stop the podfit process that uses the data directory first.")]
Delete = Annotated[
    bool, typer.Option("--delete", help="With --name: delete the cluster's data and its merged context as well.")
]


def add_to(app: typer.Typer) -> None:
    app.command("down", help="Stop the pods that `podfit up` left running.")(down)


def down(
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
    force: Force = False,
    delete: Delete = False,
    verbose: Verbose = 0,
) -> None:
    cluster = chosen(name, data_dir)
    if delete and not cluster.name:
        usage_error("--delete needs --name: delete the data directory of another cluster yourself")
    if not cluster.data_dir.is_dir():
        echo(f"no pods to stop: no data directory {cluster.data_dir}")
        if delete:
            _unmerge(cluster)
        return
    with contextlib.ExitStack() as held:
        for file in (CLUSTER_LOCK, AGENT_LOCK):
            held.enter_context(_locked(cluster, file, force))
        run(_end_pods(cluster.data_dir, delete), verbose)
        if delete:
            _unmerge(cluster)
            shutil.rmtree(cluster.data_dir)
            echo(f"deleted {cluster.data_dir}")


async def _end_pods(data_dir: Path, delete: bool) -> None:
    from podfit.compose_runtimes import remove_leftovers

    ended = await remove_leftovers(data_dir)
    if not ended:
        echo("no pods were running")
        return
    pods, objects = ("1 pod", "its object is") if ended == 1 else (f"{ended} pods", "their objects are")
    echo(f"ended {pods}" if delete else f"ended {pods}; {objects} still in the store")


def _unmerge(cluster: Cluster) -> None:
    from podfit.client.merging import unmerge, usual_files

    for file in usual_files():
        if not file.resolve().is_relative_to(cluster.data_dir) and unmerge(file, cluster.context):
            echo(f"removed context {cluster.context} from {file}")


@contextlib.contextmanager
def _locked(cluster: Cluster, file: str, force: bool) -> Iterator[None]:
    """Prevents podfit from starting on the directory while its pods are being stopped."""
    lock = DirectoryLock(cluster.data_dir, file, "podfit down")
    _take(lock, force, cluster)
    try:
        yield
    finally:
        lock.release()


def _take(lock: DirectoryLock, force: bool, cluster: Cluster) -> None:
    try:
        lock.take()
    except InUse as error:
        if not force or error.holder is None or not _stop(error.holder):
            _refuse(error, force, cluster)
        _take(lock, False, cluster)  # a service manager may already have started the next one


def _stop(holder: Holder) -> bool:
    note(f"stopping {holder}")
    return holder.terminate()


def _refuse(error: InUse, force: bool, cluster: Cluster) -> NoReturn:
    """If podfit is running, it would restart stopped pods as crashed ones."""
    where, holder = f"the data directory {error.folder} is in use by", error.holder
    command = f"podfit down --force {cluster.option}"
    if holder is None:
        note(f"podfit: {where} a process that cannot be seen from here: stop it where it runs, then try again")
    elif force:
        note(f"podfit: {where} {holder}, which could not be stopped: stop it as its owner, then try again")
    else:
        note(f"podfit: {where} {holder}: stop it with Ctrl-C or `kill {holder.pid}`, or with its pods by `{command}`")
    raise typer.Exit(REFUSED)
