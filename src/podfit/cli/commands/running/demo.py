"""`podfit demo`: a cluster with pods that grow and shrink while they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.clusters import CLUSTER_LOCK, DataDir
from podfit.cli.printing.output import echo, usage_error
from podfit.cli.run import finish
from podfit.kit.files.dirlock import DirectoryLock

if TYPE_CHECKING:
    from podfit.cli.demo.lines import Lines
    from podfit.cli.demo.screen import Screen
    from podfit.cli.demo.stage import Stage

DEMO_DATA = Path("podfit-demo")
POLL_S = 1.0


def add_to(app: typer.Typer) -> None:
    app.command("demo", help="Run a demo in which pods grow and shrink while they run.")(demo)


def demo(
    data_dir: DataDir = DEMO_DATA,
    runtime: Annotated[
        str, typer.Option("--runtime", help="The container runtime: auto, process (real cgroups) or fake (in memory).")
    ] = "auto",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Stop after this time; 0: run until Ctrl-C.")
    ] = 0.0,
    plain: Annotated[bool, typer.Option("--plain", help="Print one line per event, even in a terminal.")] = False,
    record: Annotated[Path | None, typer.Option("--record", help="On exit, save the screen as an SVG image.")] = None,
) -> None:
    if runtime not in ("auto", "process", "fake"):
        usage_error(f"--runtime {runtime!r}: it is auto, process or fake")
    chosen, banner = _choose(runtime)
    with DirectoryLock(data_dir, CLUSTER_LOCK, "podfit demo"):
        finish(_demo(data_dir, chosen, banner, (seconds, plain or not sys.stdout.isatty(), record)))


def _choose(runtime: str) -> tuple[str, list[str]]:
    """The runtime, and a note about it for the viewer."""
    from podfit.agent.runtimes.process.support import check_support

    missing = check_support() if runtime in ("auto", "process") else []
    if runtime == "process" or (runtime == "auto" and not missing):
        return "process", []
    if runtime == "fake":
        return "fake", ["Fake runtime, as asked: the pods below are simulated, nothing really runs."]
    return "fake", [
        "Fake runtime: the pods below are simulated, because real ones cannot run here:",
        *(f"  - {item}" for item in missing),
        "What would change it: run as root on a machine with writable cgroups (sudo make run).",
    ]


async def _demo(data_dir: Path, runtime: str, banner: list[str], how: tuple[float, bool, Path | None]) -> int:
    from podfit.cli.demo.stage import Stage
    from podfit.cli.run import until_stopped
    from podfit.compose import UpOptions
    from podfit.kit.web.addresses import free_port

    seconds, plain, record = how
    stage = Stage(UpOptions(data_dir, port=free_port(6443), runtime=runtime, node_name="demo-node"))
    try:
        await stage.open()
        await until_stopped(_show(stage, banner, seconds, plain, record))
    finally:
        await stage.close()
    echo(f"podfit demo ended; {stage.seen.summary}. Its data is in {data_dir}.")
    return 0


async def _show(stage: Stage, banner: list[str], seconds: float, plain: bool, record: Path | None) -> None:
    import asyncio

    from podfit.cli.demo.lines import Lines
    from podfit.cli.demo.screen import Screen

    shown: Lines | Screen = Lines(stage, banner) if plain else Screen(stage, banner)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds if seconds else float("inf")
    with shown:
        while loop.time() < end:
            shown.moved(await stage.check())
            await asyncio.sleep(POLL_S)
    if record is not None:
        _save(stage, banner, record)


def _save(stage: Stage, banner: list[str], file: Path) -> None:
    import io

    from rich.console import Console

    from podfit.cli.demo.screen import Screen

    console = Console(record=True, width=132, file=io.StringIO(), force_terminal=True)
    console.print(Screen(stage, banner, console).picture())
    file.write_text(console.export_svg(title="podfit demo"))
