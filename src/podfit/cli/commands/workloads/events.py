"""`podfit events`: Events, oldest first; `-w` watches."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.api.objects import Object
from podfit.cli.options.connect import AllNamespaces, Context, Kubeconfig, Namespace, Watch, connected
from podfit.cli.printing.event_rows import in_order, when
from podfit.cli.printing.output import Output, age, check_format, echo, list_of, note, print_object, table, usage_error
from podfit.cli.printing.wording import sized_words
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session

RESIZE_WORDS = ("Resize", "InPlace")
TYPES = ("Normal", "Warning")


def add_to(app: typer.Typer) -> None:
    app.command("events", help="Show Events, oldest first.")(events)


def events(
    about: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Show only Events about this object.")] = "",
    types: Annotated[
        str, typer.Option("--types", metavar="Normal,Warning", help="Show only Events of these types.")
    ] = "",
    resizes: Annotated[bool, typer.Option("--resizes", help="Show only Events about resizes.")] = False,
    watch: Watch = False,
    output: Output = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output)
    chosen_types = _types(types)

    async def main() -> int:
        from podfit.api.registry.kinds import EVENT

        async with connected(kubeconfig, context, namespace, all_namespaces) as session:
            query = await _query(session, about)
            listed = await session.client.list(EVENT, session.namespace, **query)
            chosen = in_order(item for item in listed["items"] if _wanted(item, chosen_types, resizes))
            _print(chosen, output, not session.namespace)
            if watch:
                revision = listed["metadata"]["resourceVersion"]
                await _watch(session, {**query, "resourceVersion": revision}, (chosen_types, resizes), output)
            elif not chosen:
                note("No events found")
            return 0

    finish(main())


def _types(text: str) -> tuple[str, ...]:
    """The types given on the command line, in any case, as in kubectl."""
    named = [word.strip().title() for word in text.split(",")] if text else []
    if any(word not in TYPES for word in named):
        usage_error(f"--types {text!r}: it is Normal, Warning or both with a comma between")
    return tuple(named)


async def _query(session: Session, about: str) -> dict[str, str]:
    if not about:
        return {}
    from podfit.cli.targets import find_kind

    word, slash, name = about.partition("/")
    kind = await find_kind(session.client, word) if slash else await find_kind(session.client, "pod")
    return {"fieldSelector": f"involvedObject.kind={kind.kind},involvedObject.name={name if slash else about}"}


def _wanted(event: Object, types: tuple[str, ...], resizes: bool) -> bool:
    if types and event.get("type") not in types:
        return False
    return not resizes or any(word in (event.get("reason") or "") for word in RESIZE_WORDS)


def row(event: Object, everywhere: bool, wide: bool) -> list[str]:
    about = event.get("involvedObject") or {}
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    message = str(event.get("message") or "").strip().replace("\n", " ")
    message = message if wide else sized_words(message)
    cells = [age(when(event)), event.get("type") or "", event.get("reason") or ""]
    cells.append(f"{str(about.get('kind') or '').lower()}/{about.get('name')}")
    if wide:
        cells.append(str((event.get("source") or {}).get("component") or event.get("reportingComponent") or ""))
    cells.append(f"{message} (x{count})" if count > 1 else message)
    return [str(event["metadata"].get("namespace")), *cells] if everywhere else cells


def _print(chosen: list[Object], output: str, everywhere: bool, header: bool = True) -> None:
    if output in ("json", "yaml"):
        whole = [{"apiVersion": "v1", "kind": "Event", **event} for event in chosen]
        print_object(output, list_of(whole) if header else whole[0])
    elif output == "name":
        for event in chosen:
            echo(f"event/{event['metadata']['name']}")
    elif chosen:
        names = ["LAST SEEN", "TYPE", "REASON", "OBJECT", *(["SOURCE"] if output == "wide" else []), "MESSAGE"]
        names = ["NAMESPACE", *names] if everywhere else names
        rows = [row(event, everywhere, output == "wide") for event in chosen]
        echo(table(rows, names if header else ()))


async def _watch(session: Session, query: dict[str, str], which: tuple[tuple[str, ...], bool], output: str) -> None:
    from podfit.api.registry.kinds import EVENT

    while True:
        async with aclosing(session.client.watch(EVENT, session.namespace, **query)) as following:
            async for kind, event in following:
                query["resourceVersion"] = event["metadata"]["resourceVersion"]
                if kind in ("ADDED", "MODIFIED") and _wanted(event, *which):
                    _print([event], output, not session.namespace, header=False)
