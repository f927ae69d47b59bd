"""`podfit down`: ends the pods that run on after `podfit up` or `podfit agent` has ended."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from podfit.cli.commands.components import AGENT_LOCK, CLUSTER_LOCK, DEFAULT_DATA, DataDir, Verbose
from podfit.cli.connect import REFUSED
from podfit.cli.output import note, say
from podfit.cli.run import run
from podfit.kit.dirlock import DirectoryLock, Holder, InUse

Force = Annotated[bool, typer.Option("--force", help="First stop the podfit process that uses the data directory.")]


def add_to(app: typer.Typer) -> None:
    app.command("down", help="End the pods that an ended `podfit up` left running.")(down)


def down(data_dir: DataDir = DEFAULT_DATA, force: Force = False, verbose: Verbose = 0) -> None:
    if not data_dir.is_dir():
        say(f"no pods to end: there is no data directory {data_dir}")
        return
    with contextlib.ExitStack() as held:
        for file in (CLUSTER_LOCK, AGENT_LOCK):
            held.enter_context(_held(data_dir, file, force))
        run(_end_pods(data_dir), verbose)


async def _end_pods(data_dir: Path) -> None:
    from podfit.compose import remove_leftovers

    nodes = await remove_leftovers(data_dir)
    say(f"ended the pods of {nodes} node{'s' if nodes != 1 else ''}; their objects are still in the store")


@contextlib.contextmanager
def _held(data_dir: Path, file: str, force: bool) -> Iterator[None]:
    """Keeps podfit from starting on the directory while its pods are being ended."""
    lock = DirectoryLock(data_dir, file, "podfit down")
    _take(lock, force)
    try:
        yield
    finally:
        lock.release()


def _take(lock: DirectoryLock, force: bool) -> None:
    try:
        lock.take()
    except InUse as error:
        if not force or error.holder is None or not _stop(error.holder):
            _refuse(error, force)
        _take(lock, force=False)  # a service manager may have started the next one already


def _stop(holder: Holder) -> bool:
    note(f"stopping {holder}")
    return holder.terminate()


def _refuse(error: InUse, force: bool) -> NoReturn:
    """Ending the pods of a running podfit would only make it start them again, as crashed ones."""
    where, holder = f"the data directory {error.folder} is in use by", error.holder
    command = f"podfit down --force --data-dir {shlex.quote(str(error.folder))}"
    if holder is None:
        note(f"podfit: {where} a process that cannot be seen from here: stop it where it runs, then try again")
    elif force:
        note(f"podfit: {where} {holder}, which could not be stopped: stop it as its owner, then try again")
    else:
        note(f"podfit: {where} {holder}: stop it with Ctrl-C or `kill {holder.pid}`, or with its pods by `{command}`")
    raise typer.Exit(REFUSED)
