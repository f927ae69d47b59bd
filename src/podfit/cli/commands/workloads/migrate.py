"""`podfit migrate`: moves a running VM pod to another node, and waits until it runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.options.connect import REFUSED, WAITING, WRONG_USAGE, Context, Kubeconfig, Namespace, connected
from podfit.cli.printing.output import echo, note
from podfit.cli.run import finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from podfit.api.objects import Object
    from podfit.api.pods.migrations import Migration
    from podfit.cli.options.connect import Session

NEWS = {"Offered": "is offered to", "Prepared": "is being moved to"}


def add_to(app: typer.Typer) -> None:
    app.command("migrate", help="Move a running VM pod to another node.")(migrate)


def migrate(
    pod: Annotated[str, typer.Argument(metavar="POD", help="The pod, as NAME or pod/NAME.")],
    to: Annotated[str, typer.Option("--to", metavar="NODE", help="The node to move the pod to.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the pod runs on the new node.")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 300.0,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    async def main() -> int:
        async with connected(kubeconfig, context, namespace) as session:
            return await _migrate(session, pod, to, wait, timeout_s)

    finish(main())


async def _migrate(session: Session, word: str, to: str, wait: bool, timeout_s: float) -> int:
    from podfit.api.pods.migrations import SUBRESOURCE
    from podfit.api.registry.kinds import POD
    from podfit.api.status import ApiError
    from podfit.cli.targets import NoSuchTarget, find_targets

    try:
        (target,) = await find_targets(session.client, session.namespace, [word])
        (found,) = target.pods
    except (NoSuchTarget, ValueError) as error:
        note(f"podfit: {error}")
        return WRONG_USAGE
    name = found["metadata"]["name"]
    meta = {"name": name, "uid": found["metadata"]["uid"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": to}}
    try:
        await session.client.create(POD, binding, session.namespace, name, SUBRESOURCE)
    except ApiError as error:
        note(f"podfit: pod/{name}: refused: {error}")
        return REFUSED
    if not wait:
        echo(f"pod/{name} migration to node {to} requested")
        return 0
    return await _follow(session, found, to, timeout_s)


async def _follow(session: Session, pod: Object, to: str, timeout_s: float) -> int:
    import asyncio

    from podfit.api.pods.migrations import FAILED, MOVED

    name, last = pod["metadata"]["name"], ""
    try:
        async with asyncio.timeout(timeout_s):
            async for migration in _steps(session, pod):
                if migration is None:
                    note(f"podfit: pod/{name}: it was deleted")
                    return REFUSED
                if migration.phase == MOVED:
                    echo(f"pod/{name} migrated to node {to}")
                    return 0
                if migration.phase == FAILED:
                    note(f"podfit: pod/{name}: migration failed: {migration.message}; the VM keeps running where it is")
                    return REFUSED
                if migration.phase != last and migration.phase in NEWS:
                    note(f"pod/{name} {NEWS[migration.phase]} node {to}")
                last = migration.phase
    except TimeoutError:
        pass
    note(f"podfit: pod/{name}: still {last or 'waiting'} after {timeout_s:g} s; the migration continues")
    return WAITING


async def _steps(session: Session, pod: Object) -> AsyncIterator[Migration | None]:
    """Every state of the migration from now on; None once the pod is gone. The connection may break meanwhile."""
    import asyncio
    from contextlib import aclosing

    from podfit.api.pods.migrations import migration_of
    from podfit.api.registry.kinds import POD
    from podfit.api.status import ApiError
    from podfit.client.transport import Unreachable

    meta = pod["metadata"]
    while True:
        try:
            now = await session.client.find(POD, meta.get("namespace", ""), meta["name"])
            yield migration_of(now) if now is not None and now["metadata"]["uid"] == meta["uid"] else None
            query = {"fieldSelector": f"metadata.name={meta['name']}"}
            async with aclosing(session.client.watch(POD, meta.get("namespace", ""), **query)) as events:
                async for kind, seen in events:
                    yield migration_of(seen) if kind != "DELETED" else None
        except (ApiError, Unreachable):
            await asyncio.sleep(1.0)
