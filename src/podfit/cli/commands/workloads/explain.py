"""`podfit explain pod|vpa|resize NAME`: why this number, why not resized, why not scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.options.connect import Context, Kubeconfig, Namespace, Selector, connected
from podfit.cli.printing.output import (
    DATA,
    DataOutput,
    check_format,
    echo,
    fitted,
    list_of,
    print_object,
    terminal_width,
    usage_error,
)
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session

Explained = tuple[list[str], dict[str, Any]]
"""Lines to print, and the data behind them."""
WHAT = {"pod": "pod", "pods": "pod", "po": "pod", "vpa": "vpa", "resize": "resize"}


def add_to(app: typer.Typer) -> None:
    app.command("explain", help="Explain a scheduling decision, a resize or a recommendation.")(explain)


def explain(
    what: Annotated[str, typer.Argument(metavar="pod|vpa|resize", help="What to explain.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="The pod, or TYPE/NAME of a workload; with vpa, the autoscaler."),
    ] = None,
    recommender: Annotated[
        str,
        typer.Option(
            "--recommender", metavar="URL", help="With vpa: the recommender to ask, at its --address; default: found."
        ),
    ] = "",
    selector: Selector = "",
    output: DataOutput = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, DATA)
    what, _, inline = what.partition("/")
    if what not in WHAT:
        usage_error(f"explain {what!r}: it is pod, vpa or resize")
    if recommender and not recommender.startswith(("http://", "https://")):
        usage_error(f"--recommender {recommender!r}: it is an address such as http://localhost:8942")
    chosen = [*([inline] if inline else []), *(names or [])]
    if not chosen and not selector:
        usage_error(f"name what to explain: podfit explain {what} NAME")

    async def main() -> int:
        from podfit.cli.targets import NoSuchTarget

        async with connected(kubeconfig, context, namespace) as session:
            try:
                explained = await _explained(session, WHAT[what], chosen, selector, recommender)
            except NoSuchTarget as error:
                usage_error(str(error))
            if output:
                found = [data for _, data in explained]
                print_object(output, found[0] if len(found) == 1 else list_of(found))
            else:
                width = terminal_width()
                pages = ("\n".join(fitted(line, width) for line in lines if line) for lines, _ in explained)
                echo("\n\n".join(pages))
            return 0

    finish(main())


async def _explained(session: Session, what: str, names: list[str], selector: str, recommender: str) -> list[Explained]:
    from podfit.api.registry.kinds import VPA
    from podfit.cli.explaining.autoscalers import explain_vpa
    from podfit.cli.explaining.resizes import explain_resize
    from podfit.cli.explaining.scheduling import explain_place
    from podfit.cli.targets import NoSuchTarget, find_targets

    if what == "vpa":
        width = terminal_width()
        plain = [name.rpartition("/")[2] for name in names]
        return [
            await explain_vpa(
                session.client, await session.client.get(VPA, session.namespace, name), width, recommender
            )
            for name in plain
        ]
    targets = await find_targets(session.client, session.namespace, names, selector)
    pods = [pod for target in targets for pod in target.pods]
    if not pods:
        raise NoSuchTarget(f"{targets[0].name} has no pods" if targets else "no pods found")
    explained = explain_place if what == "pod" else explain_resize
    return [await explained(session.client, pod) for pod in pods]
