"""Bootstrap tokens: what a node shows to join."""

from __future__ import annotations

import secrets
import shlex
import string
import time
from typing import Annotated

import typer

from podfit.cli.commands.components import Kubeconfig
from podfit.cli.run import run

_LETTERS = string.ascii_lowercase + string.digits


def add_to(app: typer.Typer) -> None:
    tokens = typer.Typer(help="Tokens that let nodes join.", no_args_is_help=True, rich_markup_mode=None)
    tokens.command("create", help="Make a token and print how to join with it.")(create)
    app.add_typer(tokens, name="token")


def create(
    kubeconfig: Kubeconfig = "",
    ttl_hours: Annotated[float, typer.Option("--ttl", help="Hours until it expires.", min=0.01)] = 24.0,
) -> None:
    from podfit.api.kinds import kind_named
    from podfit.client import Client
    from podfit.client.kubeconfig import load
    from podfit.kit.clock import rfc3339

    access = load(kubeconfig)
    id, secret = (("".join(secrets.choice(_LETTERS) for _ in range(length))) for length in (6, 16))
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{id}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id,
            "token-secret": secret,
            "expiration": rfc3339(time.time() + ttl_hours * 3600),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
        },
    }

    async def main() -> None:
        client = Client(access.transport("podfit-token"))
        try:
            await client.create(kind_named("Secret"), body)
        finally:
            await client.close()
        server = shlex.quote(access.server)
        print(f"podfit agent --server {server} --token {id}.{secret} --certificate-authority ca.crt --node-name NAME")

    run(main())
