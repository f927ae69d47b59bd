"""`podfit recommend`: recommended requests for the workloads of a cluster, based on usage. Installs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.options.connect import (
    FAILED,
    REFUSED,
    AllNamespaces,
    Context,
    Kubeconfig,
    Namespace,
    Selector,
    connected,
)
from podfit.cli.printing.helping import Command
from podfit.cli.printing.output import check_format, echo, note, nothing_in, print_object, usage_error
from podfit.cli.recommending.prometheus_options import (
    BearerTokenFile,
    ClusterLabel,
    Insecure,
    Load,
    QueryTimeout,
    Resume,
)
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session
    from podfit.cli.recommending.collecting import Collector, ReportRequest
    from podfit.vpa.report.decide.findings import Report

FORMATS = ("", "wide", "json", "yaml", "csv", "html")
DRY_RUNS = ("none", "client", "server")
CONFIDENCES = ("low", "medium", "high")


class Recommend(Command):
    """Accepts `--dry-run` as kubectl does: alone, or with `=`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from podfit.cli.commands.workloads.resize import as_kubectl_reads

        return super().parse_args(ctx, as_kubectl_reads(args))


def add_to(app: typer.Typer) -> None:
    app.command("recommend", help="Recommend requests and limits for workloads from their usage.", cls=Recommend)(
        recommend
    )


def recommend(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these workloads, such as `web`, `api-*` or `deployment/web`."),
    ] = None,
    prometheus: Annotated[
        str,
        typer.Option("--prometheus", metavar="URL", envvar="PROMETHEUS_URL", help="The Prometheus server with usage."),
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--source", help="The source of usage: auto (the first that has any), prometheus, checkpoints or metrics."
        ),
    ] = "auto",
    history: Annotated[
        str, typer.Option("--history", metavar="TIME", help="The period of history to read, such as 8d.")
    ] = "8d",
    sample: Annotated[
        str,
        typer.Option("--sample", metavar="TIME", help="How long to sample metrics.k8s.io, if that is the source."),
    ] = "2m",
    policy: Annotated[
        str,
        typer.Option("--policy", help="The sizing policy: default, krr, window, rhythm or auto (docs/backtest.md)."),
    ] = "default",
    policy_costs: Annotated[
        list[str] | None,
        typer.Option(
            "--policy-cost",
            metavar="NAME=VALUE",
            help="A price by which policies choose, such as oom-day=1000; may be repeated (docs/backtest.md).",
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND,…", help="Only workloads of these kinds.")] = "",
    sort: Annotated[str, typer.Option("--sort", help="The order of rows: waste, cpu, memory, risk or name.")] = "waste",
    price_cpu: Annotated[float, typer.Option("--price-cpu", min=0, help="The price of a core per hour.")] = 0.0,
    price_memory: Annotated[float, typer.Option("--price-memory", min=0, help="The price of a GiB per hour.")] = 0.0,
    min_cpu: Annotated[str, typer.Option("--min-cpu", help="The minimum CPU request of a container.")] = "",
    min_memory: Annotated[str, typer.Option("--min-memory", help="The minimum memory request of a container.")] = "",
    max_cpu: Annotated[str, typer.Option("--max-cpu", help="The maximum CPU request of a container.")] = "",
    max_memory: Annotated[str, typer.Option("--max-memory", help="The maximum memory request of a container.")] = "",
    keep_limits: Annotated[bool, typer.Option("--keep-limits", help="Leave limits unchanged.")] = False,
    runtimes: Annotated[
        bool,
        typer.Option(
            "--runtimes/--no-runtimes", help="Take the heap settings of JVM, Go, Node.js and .NET into account."
        ),
    ] = True,
    min_change: Annotated[
        float, typer.Option("--min-change", metavar="PERCENT", min=0, help="Skip changes smaller than this.")
    ] = 10.0,
    patch_dir: Annotated[
        Path | None,
        typer.Option("--patch-dir", metavar="DIR", help="Write a patch for each workload into this folder."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print only the changes.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Resize running pods in place, after confirmation.")] = False,
    template: Annotated[
        bool, typer.Option("--template", help="With --apply: also change templates if that recreates the pods.")
    ] = False,
    confidence: Annotated[
        str,
        typer.Option(
            "--confidence", help="With --apply, --diff and --patch-dir: the minimum confidence, low, medium or high."
        ),
    ] = "medium",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    dry_run: Annotated[
        str,
        typer.Option(
            "--dry-run", metavar="[=MODE]", help="With --apply: none, client or server; without a value: client."
        ),
    ] = "none",
    cluster_label: ClusterLabel = "",
    bearer_token_file: BearerTokenFile = "",
    insecure: Insecure = False,
    load: Load = 50.0,
    timeout_s: QueryTimeout = 120.0,
    rules: Annotated[
        bool, typer.Option("--rules/--no-rules", help="Use recording rules if they cover all containers.")
    ] = True,
    resume: Resume = True,
    selector: Selector = "",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FORMAT", help="The format: wide, json, yaml, csv or html; default: a table."
        ),
    ] = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, FORMATS)
    choices = (
        (sort, ORDERS, "--sort"),
        (source, SOURCES, "--source"),
        (confidence, CONFIDENCES, "--confidence"),
        (policy, POLICY_NAMES, "--policy"),
    )
    for value, allowed, what in choices:
        if value not in allowed:
            usage_error(f"{what} {value!r}: it is {', '.join(allowed[:-1])} or {allowed[-1]}")
    if dry_run not in DRY_RUNS:
        usage_error(f'Invalid dry-run value ({dry_run}). Must be "none", "server", or "client".')
    options = dict(locals())

    async def main() -> int:
        from podfit.cli.recommending.options import request_of

        async with connected(kubeconfig, context, namespace, all_namespaces) as session:
            return await _recommend(session, request_of(options, session.namespace), options)

    finish(main())


ORDERS = ("waste", "cpu", "memory", "risk", "name")
POLICY_NAMES = ("default", "krr", "window", "rhythm", "auto")
SOURCES = ("auto", "prometheus", "checkpoints", "metrics")


async def _recommend(session: Session, request: ReportRequest, options: dict[str, Any]) -> int:
    from podfit.cli.recommending.collecting import Collector, NothingKnown
    from podfit.cli.recommending.progress import ProgressLine
    from podfit.kit.clock import RealClock
    from podfit.vpa.policies.base import InvalidSizes

    collector = Collector(
        session.client, request, RealClock(), ProgressLine(), session.access.server.rpartition("://")[2]
    )
    try:
        report = await collector.report()
    except NothingKnown as error:
        note(f"podfit: no usage: {error}")
        return FAILED
    except InvalidSizes as error:
        note(f"podfit: {error}")
        return FAILED
    if not collector.workloads:
        note(nothing_in(session.namespace))
        return 0
    for words in report.missing:
        note(f"partial: {words}")
    for words in report.notes:
        note(f"note: {words}")
    if options["diff"] or options["apply"] or options["patch_dir"] is not None:
        return await _change(session, report, collector, options)
    _show(report, options["output"], not session.namespace)
    return 0


def _show(report: Report, output: str, everywhere: bool) -> None:
    from podfit.cli.recommending.page import as_page
    from podfit.cli.recommending.texts import as_csv, as_data, as_table, summary

    if output in ("json", "yaml"):
        print_object(output, as_data(report))
    elif output == "csv":
        echo(as_csv(report).rstrip("\n"))
    elif output == "html":
        echo(as_page(report).rstrip("\n"))
    else:
        echo(as_table(report, output == "wide", everywhere))
        note(summary(report) + (" (partial)" if report.missing else ""))


async def _change(session: Session, report: Report, collector: Collector, options: dict[str, Any]) -> int:
    from podfit.cli.recommending.patching.folder import write
    from podfit.cli.recommending.patching.patches import Change, changes, diff

    workloads, least, confidence = collector.workloads, options["min_change"] / 100.0, options["confidence"]
    changed = changes(report.findings, workloads, least, confidence)
    folder, written = options["patch_dir"], list[Change]()
    if folder is not None:
        written = changes(report.findings, workloads, least, confidence, templates=True)
    if not changed and not written:
        note("nothing to change: every size fits, or is not known well enough (--confidence)")
        return 0
    if options["diff"]:
        for change in changed:
            echo(diff(change))
    if folder is not None:
        for words in write(folder, written):
            note(words)
    return await _apply(session, changed, options) if options["apply"] else 0


async def _apply(session: Session, changed: list[Any], options: dict[str, Any]) -> int:
    from podfit.cli.recommending.applying import apply, steps

    made, left = steps(changed, options["template"])
    for words in left:
        note(f"left: {words}")
    if options["dry_run"] == "client":
        for step in made:
            echo(f"{step.what} would be {'resized' if step.subresource else 'changed'}: {step.patch['spec']}")
        return 0
    if options["dry_run"] == "none" and not options["yes"] and not _agreed(made):
        note("nothing was changed")
        return FAILED
    outcome = await apply(session.client, made, options["dry_run"] == "server", echo)
    for words in outcome.refused:
        note(words)
    return REFUSED if outcome.refused else 0


def _agreed(made: list[Any]) -> bool:
    pods = sum(bool(step.subresource) for step in made)
    if not made:
        return False
    words = f"Resize {pods} pods in place and change {len(made) - pods} templates?"
    try:
        return typer.confirm(words, err=True)
    except typer.Abort:
        return False
