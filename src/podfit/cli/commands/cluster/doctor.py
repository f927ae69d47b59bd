"""`podfit doctor`: tests every prerequisite and says how to fix what is missing."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.clusters import DEFAULT_DATA, DataDir
from podfit.cli.options.components import Listen
from podfit.cli.options.connect import Context, Kubeconfig
from podfit.cli.options.ports import host_port
from podfit.cli.options.runtimes import RuntimeEndpoint
from podfit.cli.printing.output import DATA, DataOutput, check_format, print_object, usage_error, visible
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.checks import Finding

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
WIDTH = 20
"""Of the column of names."""


def add_to(app: typer.Typer) -> None:
    app.command("doctor", help="Check this machine and the cluster.")(doctor)


def doctor(
    only: Annotated[
        str, typer.Option("--only", metavar="machine|cluster", help="Check only the machine, or only the cluster.")
    ] = "",
    data_dir: DataDir = DEFAULT_DATA,
    listen: Listen = "127.0.0.1:6443",
    output: DataOutput = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    container_runtime_endpoint: RuntimeEndpoint = "",
) -> None:
    check_format(output, DATA)
    if only not in ("", "machine", "cluster"):
        usage_error(f"--only {only!r}: it is machine or cluster")
    host, port = host_port(listen)

    async def main() -> int:
        findings: list[Finding] = []
        async for finding in _findings(only, data_dir, (host, port), (kubeconfig, context), container_runtime_endpoint):
            findings.append(finding)
            if not output:
                _print(finding)
        if output:
            print_object(output, [vars(finding) for finding in findings])
        return 1 if any(finding.level == "fail" for finding in findings) else 0

    finish(main())


async def _findings(
    only: str, data_dir: Path, where: tuple[str, int], cluster: tuple[str, str], endpoint: str
) -> AsyncIterator[Finding]:
    from podfit.cli.checks.cluster import all_cluster_checks, cluster_checks
    from podfit.cli.checks.machine import all_machine_checks
    from podfit.cli.checks.runtime import runtime_checks
    from podfit.cli.checks.storage import all_storage_checks

    if only != "cluster":
        for finding in all_machine_checks(*where):
            yield finding
        async for finding in runtime_checks(endpoint):
            yield finding
        for finding in all_storage_checks(data_dir):
            yield finding
    if only == "cluster":
        async for finding in all_cluster_checks(*cluster):
            yield finding
    elif not only:
        async for finding in cluster_checks(*cluster, data_dir):
            yield finding


def _print(finding: Finding) -> None:
    from rich.console import Console
    from rich.text import Text

    mark, color = MARKS[finding.level]
    console = Console(file=sys.stdout, soft_wrap=True)
    line = Text.assemble((mark, color), f" {finding.name + ':':<{WIDTH}}", visible(finding.found))
    if finding.help:
        line.append(f"\n  {'':<{WIDTH}}→ {finding.help}", style="dim")
    console.print(line)
