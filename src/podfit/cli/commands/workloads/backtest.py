"""`podfit backtest`: how policies would have sized containers, walked forward through their history."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.printing.output import check_format, echo, note, table, usage_error
from podfit.cli.recommending.prometheus_options import (
    BearerTokenFile,
    ClusterLabel,
    Insecure,
    Load,
    QueryTimeout,
    Resume,
)

if TYPE_CHECKING:
    from podfit.cli.backtesting.history import History
    from podfit.cli.backtesting.results import Result
    from podfit.vpa.policies.base import Policy

FORMATS = ("", "wide", "json", "html")


def add_to(app: typer.Typer) -> None:
    tests = typer.Typer(
        help="Replay past usage against sizing policies and compare them.",
        invoke_without_command=True,
        rich_markup_mode=None,
    )
    tests.callback()(report)
    tests.command("run", help="Write the sizes that a policy would have recommended at each sample.")(run)
    app.add_typer(tests, name="backtest")


def report(
    context: typer.Context,
    series: Annotated[Path | None, typer.Option("--series", metavar="FILE", help="An npz file with usage.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="A CSV file with usage: time, container, cpu, memory.")
    ] = None,
    local: Annotated[
        Path | None, typer.Option("--local", metavar="FILE", help="The local history file of the recommender (SQLite).")
    ] = None,
    prometheus: Annotated[
        str,
        typer.Option(
            "--prometheus", metavar="URL", help="A Prometheus server with usage; all its containers are read."
        ),
    ] = "",
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="A policy to evaluate; may be repeated. Default: all."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME=VALUE",
            help="Override a bound, price, percentile, margin or mode; may be repeated.",
        ),
    ] = None,
    step_s: Annotated[
        float, typer.Option("--step", min=1, max=86400, help="Seconds between samples; not used with --series.")
    ] = 300.0,
    history: Annotated[
        str,
        typer.Option("--history", metavar="TIME", help="The period of history to read from Prometheus, such as 8d."),
    ] = "8d",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Read only this namespace from Prometheus; default: all."
        ),
    ] = "",
    cluster_label: ClusterLabel = "",
    bearer_token_file: BearerTokenFile = "",
    insecure: Insecure = False,
    load: Load = 50.0,
    timeout_s: QueryTimeout = 120.0,
    resume: Resume = True,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORMAT", help="The format: wide, json or html; default: a table.")
    ] = "",
) -> None:
    if context.invoked_subcommand is not None:
        return
    options = dict(locals())
    check_format(output, FORMATS)
    if sum(bool(source) for source in (series, csv, local, prometheus)) != 1:
        usage_error("backtest reads one history: --series, --csv, --local or --prometheus")
    from podfit.cli.backtesting import results
    from podfit.vpa.policies.table import POLICIES

    policies = [policy_named(name) for name in dict.fromkeys(policy or POLICIES)]
    try:
        overrides = results.what_if_of(what_if or [])
        notes = results.check_effects(overrides, policies)
    except ValueError as error:
        usage_error(str(error))
    for words in notes:
        note(f"note: {words}")
    past = _read_prometheus(options) if prometheus else _read(series, csv, local, step_s)
    found = results.judged(past, policies, overrides)
    past = results.completed(past, found)
    for words in past.missing:
        note(f"partial: {words}")
    _print(past, found, output)


def _read(series: Path | None, csv: Path | None, local: Path | None, step_s: float) -> History:
    import asyncio

    from podfit.cli.backtesting import history

    if series is not None:
        return history.with_samples(history.read_npz(series), str(series))
    if csv is not None:
        return history.read_csv(csv, step_s)
    assert local is not None
    return asyncio.run(history.read_local(local, step_s))


def _read_prometheus(options: dict[str, Any]) -> History:
    import asyncio

    from podfit.cli.backtesting.prometheus import HistoryRequest, read_prometheus
    from podfit.cli.recommending.options import prometheus_config
    from podfit.cli.recommending.progress import ProgressLine
    from podfit.vpa.report.usage.saved import cache_folder

    config = prometheus_config(options)
    assert config is not None
    cache = cache_folder() if options["resume"] else None
    request = HistoryRequest(config, options["namespace"], options["step_s"], options["load"] / 100.0, cache)
    found, notes = asyncio.run(read_prometheus(request, ProgressLine()))
    for words in notes:
        note(f"note: {words}")
    return found


def _print(past: History, found: list[Result], output: str) -> None:
    import json

    from podfit.cli.backtesting import page, results, texts

    if output == "json":
        echo(json.dumps(results.as_object(past, found), indent=2))
        return
    if output == "html":
        print(page.as_page(past, found), end="")
        return
    echo(table([texts.cells(result, result.total) for result in found], texts.HEADS))
    if output == "wide":
        each = [
            [name, *texts.cells(result, quality)]
            for result in found
            for name, quality in zip(past.names, result.each, strict=True)
        ]
        echo()
        echo(table(each, ("CONTAINER", *texts.HEADS)))


def run(
    series: Annotated[
        Path, typer.Option("--series", metavar="IN.npz", help="The npz file with usage: `cpu`, `memory`, `step_s`.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="OUT.npz", help="The npz file to write: `cpu_size`, `memory_size`.")
    ],
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="The sizing policy.")] = "auto",
) -> None:
    import numpy as np

    from podfit.cli.backtesting.history import read_npz
    from podfit.vpa.policies.base import sizes_of

    chosen = policy_named(policy)
    if out.exists() and out.samefile(series):
        usage_error(f"--out {out} is the file of --series")
    history = read_npz(series)
    for words in history.missing:
        note(f"partial: {words}")
    sizes = {f"{resource}_size": sizes_of(chosen, values) for resource, values in history.series.items()}
    out.parent.stat()  # A missing folder is named before the sizes are computed.
    if out.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(out))
    # Written to a temporary file and renamed: an existing file is always complete.
    with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", suffix=".npz", delete=False) as file:
        try:
            np.savez_compressed(file, **sizes)  # type: ignore[arg-type]
            file.flush()
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, out)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def policy_named(name: str) -> Policy:
    from podfit.vpa.policies.table import POLICIES

    if name not in POLICIES:
        usage_error(f"unknown policy {name!r}: it is one of {', '.join(POLICIES)}")
    return POLICIES[name]
