"""Bootstrap tokens, with which nodes join."""

from __future__ import annotations

import base64
import secrets
import shlex
import string
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.options.connect import Context, Kubeconfig, connected
from podfit.cli.printing.output import DATA, DataOutput, check_format, echo, list_of, note, print_object, span, table
from podfit.cli.run import finish, run

if TYPE_CHECKING:
    from podfit.client import Client

_LETTERS = string.ascii_lowercase + string.digits
SYSTEM, TYPE, PREFIX = "kube-system", "bootstrap.kubernetes.io/token", "bootstrap-token-"
_USAGE = "usage-bootstrap-"


def add_to(app: typer.Typer) -> None:
    tokens = typer.Typer(
        help="Manage the bootstrap tokens with which nodes join.", no_args_is_help=True, rich_markup_mode=None
    )
    tokens.command("create", help="Create a token and print the command that joins a node with it.")(create)
    tokens.command("list", help="List the tokens and their expiry.")(list_)
    tokens.command("delete", help="Revoke tokens.")(delete)
    app.add_typer(tokens, name="token")


def create(
    kubeconfig: Kubeconfig = "",
    ttl_hours: Annotated[float, typer.Option("--ttl", help="Hours until the token expires.", min=0.01)] = 24.0,
    context: Context = "",
) -> None:
    from podfit.api.registry.kinds import kind_named
    from podfit.client import Client
    from podfit.client.kubeconfig import load
    from podfit.kit.clock import rfc3339

    access = load(kubeconfig, context)
    id, secret = (("".join(secrets.choice(_LETTERS) for _ in range(length))) for length in (6, 16))
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{PREFIX}{id}", "namespace": SYSTEM},
        "type": TYPE,
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


def list_(output: DataOutput = "", context: Context = "", kubeconfig: Kubeconfig = "") -> None:
    check_format(output, DATA)

    async def main() -> int:
        async with connected(kubeconfig, context) as session:
            tokens = await _tokens(session.client)
        if output:
            print_object(output, list_of(tokens))
        elif not tokens:
            note("No tokens found")
        else:
            rows = [
                (token["token"], _left(token["expires"]), token["expires"] or "<never>", ",".join(token["usages"]))
                for token in tokens
            ]
            echo(table(rows, ["TOKEN", "TTL", "EXPIRES", "USAGES"]))
        return 0

    finish(main())


def delete(
    tokens: Annotated[
        list[str], typer.Argument(metavar="TOKEN", help="The tokens, in full or only the part before the dot.")
    ],
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    async def main() -> int:
        from podfit.api.registry.kinds import kind_named

        async with connected(kubeconfig, context) as session:
            for token in tokens:
                id = token.partition(".")[0]
                await session.client.delete(kind_named("Secret"), SYSTEM, f"{PREFIX}{id}")
                echo(f'bootstrap token "{id}" deleted')
        return 0

    finish(main())


async def _tokens(client: Client) -> list[dict[str, Any]]:
    from podfit.api.registry.kinds import kind_named

    listed = await client.list(kind_named("Secret"), SYSTEM, fieldSelector=f"type={TYPE}")
    return [_token(secret) for secret in listed["items"]]


def _token(secret: dict[str, Any]) -> dict[str, Any]:
    data = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    granted = (key.removeprefix(_USAGE) for key, value in data.items() if key.startswith(_USAGE) and value == "true")
    token = f"{data.get('token-id', '')}.{data.get('token-secret', '')}"
    return {"token": token, "expires": data.get("expiration") or None, "usages": sorted(granted)}


def _left(expires: str | None) -> str:
    from podfit.kit.clock import parse_rfc3339

    if expires is None:
        return "<forever>"
    left = parse_rfc3339(expires) - time.time()
    return span(left) if left > 0 else "<expired>"
