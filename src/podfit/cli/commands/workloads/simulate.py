"""`podfit simulate`: a cluster in virtual time, with several policies and update modes compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.printing.output import check_format, echo, table, usage_error

if TYPE_CHECKING:
    from podfit.cli.simulating.results import Named
    from podfit.sim.scenario.model import Scenario

FORMATS = ("", "table", "wide", "json", "html")


def add_to(app: typer.Typer) -> None:
    app.command("simulate", help="Simulate a cluster in virtual time.")(simulate)


def simulate(
    scenario: Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="The scenario, a YAML file.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="The policy of all workloads; may be repeated to compare. Default: the scenario's.",
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="The update mode of all workloads; may be repeated to compare. Default: the scenario's.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The seed of random numbers; default: the scenario's.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print an example scenario and exit.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORMAT", help="The format: table, wide, json or html.")
    ] = "",
) -> None:
    check_format(output, FORMATS)
    if example:
        print(_example(), end="")
        return
    if scenario is None:
        usage_error("simulate needs a scenario: `podfit simulate --example` prints one")
    from podfit.sim.scenario.model import MODES
    from podfit.vpa.policies.table import POLICIES

    for given, known, what in ((policy, tuple(POLICIES), "policy"), (mode, MODES, "mode")):
        for word in given or ():
            if word not in known:
                usage_error(f"unknown {what} {word!r}: it is one of {', '.join(known)}")
    parsed = _read(scenario)
    if seed is not None:
        parsed = replace(parsed, seed=seed)
    _print(list(_runs(parsed, scenario.parent, policy or [], mode or [])), output)


def _example() -> str:
    from importlib import resources

    return (resources.files("podfit.sim.scenario") / "example.yaml").read_text()


def _read(path: Path) -> Scenario:
    from podfit.sim.scenario.fields import BadScenario
    from podfit.sim.scenario.parse import parse

    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise BadScenario(f"{path} is not text") from error
    except BadScenario as error:
        raise BadScenario(f"{path}: {error}") from error


def _runs(scenario: Scenario, folder: Path, policies: list[str], modes: list[str]) -> Iterator[Named]:
    """Every policy with every mode."""
    from podfit.cli.recommending.progress import ProgressLine
    from podfit.cli.simulating.results import Named, name_of
    from podfit.cli.simulating.traces import traces_of
    from podfit.sim.run import simulate as run

    traces = traces_of(scenario, folder)
    for policy in dict.fromkeys(policies) or [None]:
        for mode in dict.fromkeys(modes) or [None]:
            chosen = scenario if policy is None else scenario.with_policy(policy)
            chosen = chosen if mode is None else chosen.with_mode(mode)
            names = name_of(chosen)
            label = "/".join(names) if len(modes) > 1 else names[0]
            with ProgressLine().of(f"simulating {label}") as seen:

                def progress(done: int, whole: int, pods: int = chosen.pods, seen=seen) -> None:  # type: ignore[no-untyped-def]
                    seen(done, whole, done * pods)

                yield Named(*names, run(chosen, traces, progress), label)


def _print(runs: list[Named], output: str) -> None:
    import json

    from podfit.cli.simulating import results, texts

    if output == "json":
        echo(json.dumps(results.as_object(runs), indent=2))
        return
    if output == "html":
        print(texts.as_page(runs), end="")
        return
    echo(table(texts.totals(runs), texts.HEADS))
    echo()
    echo(table(texts.clusters(runs), texts.CLUSTER_HEADS))
    if output == "wide":
        echo()
        echo(table(texts.each(runs), ("WORKLOAD", *texts.HEADS)))
