"""The options shared by every client command, and the connection they define."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.client import Client
    from podfit.client.kubeconfig import Access

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace; default: the context's.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Include all namespaces.")]
Selector = Annotated[str, typer.Option("--selector", "-l", help="Only objects with these labels, as in kubectl.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep the output up to date until Ctrl-C.")]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Seconds between updates with -w.")
]
Context = Annotated[str, typer.Option("--context", help="The context of the kubeconfig to use.")]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="The kubeconfig to use; default: $KUBECONFIG, then ~/.kube/config.")
]

OK, FAILED, WRONG_USAGE, REFUSED, WAITING = 0, 1, 2, 3, 4
"""Exit codes: success; no connection, or rejected; invalid usage; rejected by a node or the API server; still
pending.
"""


@dataclass(frozen=True)
class Session:
    """An open connection and its namespace; "" means all."""

    client: Client
    namespace: str
    access: Access


@asynccontextmanager
async def connected(
    kubeconfig: str, context: str, namespace: str = "", everywhere: bool = False, timeout_s: float = 60.0
) -> AsyncIterator[Session]:
    from podfit.client import Client
    from podfit.client.kubeconfig import load

    access = load(kubeconfig, context)
    client = Client(access.transport("podfit-cli", timeout_s), field_manager="podfit")
    try:
        yield Session(client, "" if everywhere else namespace or access.namespace, access)
    finally:
        await client.close()
