"""`podfit describe`: a pod's four states, conditions in plain words, story and Events; free resources of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from podfit.api.objects import Object
from podfit.cli.options.connect import (
    AllNamespaces,
    Context,
    Interval,
    Kubeconfig,
    Namespace,
    Selector,
    Watch,
    connected,
)
from podfit.cli.printing.output import (
    PAGES,
    PageOutput,
    check_format,
    list_of,
    nothing_in,
    print_object,
    terminal_width,
    usage_error,
)
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.api.registry.kinds import Kind
    from podfit.cli.options.connect import Session

Described = tuple[str, Object]
"""A page, and its data."""
_BETWEEN = "\n\n\n"


def add_to(app: typer.Typer) -> None:
    app.command("describe", help="Show a pod's states and history, or a node's capacity.")(describe)


def describe(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TYPE NAME", help="pod NAME, deploy/NAME (its pods) or node NAME; TYPE alone selects all."
        ),
    ] = None,
    watch: Watch = False,
    every_s: Interval = 2.0,
    selector: Selector = "",
    output: PageOutput = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, PAGES)
    if watch and output in ("json", "yaml"):
        usage_error(f"-w shows pages: it cannot be used with -o {output}")

    async def main() -> int:
        from podfit.cli.printing.watching import show
        from podfit.cli.targets import NoSuchTarget

        async with connected(kubeconfig, context, namespace, all_namespaces) as session:

            async def described() -> list[Described]:
                width = 0 if output == "wide" else terminal_width()
                return await _described(session, words or [], selector, width)

            async def page() -> str:
                return _BETWEEN.join(text for text, _ in await described()) or nothing_in(session.namespace)

            try:
                if output not in ("json", "yaml"):
                    await show(page, watch, every_s)
                    return 0
                found = [data for _, data in await described()]
            except NoSuchTarget as error:
                usage_error(str(error))
            print_object(output, found[0] if len(found) == 1 else list_of(found))
            return 0

    finish(main())


async def _described(session: Session, words: list[str], selector: str, width: int) -> list[Described]:
    from podfit.api.registry.kinds import NODE, VPA
    from podfit.cli.describing import pods
    from podfit.cli.targets import find_targets, known_kind

    head = words[0].partition("/")[0] if words and (len(words) > 1 or "/" in words[0]) else "".join(words)
    kind = await known_kind(session.client, head) if head else None
    if kind is NODE or kind is VPA:
        return await _others(session, kind, words, selector, width)
    targets = await find_targets(session.client, session.namespace, words, selector, every=True)
    found = []
    for pod in (pod for target in targets for pod in target.pods):
        facts = await pods.gather(session.client, pod)
        found.append((pods.page(pod, facts, width), facts))
    return found


async def _others(session: Session, kind: Kind, words: list[str], selector: str, width: int) -> list[Described]:
    """Nodes and autoscalers, which have pages of their own."""
    from podfit.cli.describing import nodes
    from podfit.cli.explaining.autoscalers import explain_vpa

    names = [word.rpartition("/")[2] for word in (words if "/" in words[0] else words[1:])]
    where = session.namespace if kind.namespaced else ""
    if names:
        objects = [await session.client.get(kind, where, name) for name in names]
    else:
        query = {"labelSelector": selector} if selector else {}
        objects = (await session.client.list(kind, where, **query))["items"]
    found: list[Described] = []
    for obj in objects:
        if kind.kind == "Node":
            facts = await nodes.gather(session.client, obj)
            found.append((nodes.page(facts, width), nodes.data(facts)))
        else:
            lines, numbers = await explain_vpa(session.client, obj, width)
            found.append(("\n".join(lines), numbers))
    return found
