"""Formats simulated runs as tables and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.cli.backtesting import page
from podfit.cli.backtesting.texts import HEADS as BACKTEST_HEADS
from podfit.cli.backtesting.texts import row_cells
from podfit.cli.simulating.results import Named, history_of

HEADS = ("RUN", *BACKTEST_HEADS[1:])
CLUSTER_HEADS = (
    *("RUN", "EVICTIONS", "OOM KILLS", "RESIZES", "DEFERRED", "PENDING", "LONGEST", "DOWN"),
    *("FRAGMENTED", "CPU ALLOCATED", "MEMORY ALLOCATED"),
)


def totals(runs: list[Named]) -> list[list[str]]:
    return [row_cells(run.label, result.resource, run.row(result)) for run in runs for result in run.results()]


def each(runs: list[Named]) -> list[list[str]]:
    """The table with a row for each workload, whose name is in the first column."""
    return [
        [workload.name, *row_cells(run.label, result.resource, run.row(result, at))]
        for run in runs
        for result in run.results()
        for at, workload in enumerate(run.run.scenario.workloads)
    ]


def clusters(runs: list[Named]) -> list[list[str]]:
    return [_cluster(run) for run in runs]


def _cluster(run: Named) -> list[str]:
    found = run.cluster()
    causes = {cause: count for cause, count in found["evictions"].items() if count}
    listed = ", ".join(f"{cause} {count}" for cause, count in causes.items())
    return [
        run.label,
        f"{sum(causes.values())} ({listed})" if listed else "0",
        str(found["oomKills"]),
        str(found["resizes"]),
        f"{found['deferredHours']:.1f} pod-h",
        f"{found['pendingHours']:.1f} pod-h",
        f"{found['longestPendingSeconds'] / 60:.0f} min",
        f"{found['downHours']:.1f} pod-h",
        f"{found['fragmentation']['mean']:.1%}",
        f"{found['allocated']['cpu']:.1%}",
        f"{found['allocated']['memory']:.1%}",
    ]


def as_page(runs: list[Named]) -> str:
    return "".join(_parts(runs))


def _parts(runs: list[Named]) -> Iterator[str]:
    scenario = runs[0].run.scenario
    nodes = sum(group.count for group in scenario.nodes)
    days = scenario.steps * scenario.step_s / 86400
    yield page.head(
        "Simulation",
        f"{nodes} nodes, {scenario.pods} pods, {days:g} {'day' if days == 1 else 'days'}, seed {scenario.seed}",
    )
    yield page.html_table(HEADS, totals(runs))
    yield page.html_table(CLUSTER_HEADS, clusters(runs))
    yield '<p class="soft">Charts show the mean of the pods of a workload: what they asked for, and their requests.</p>'
    yield from page.charts(history_of(runs[0].run), [result for run in runs for result in run.results()])
    yield "</main></body></html>\n"
