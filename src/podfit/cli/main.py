"""The `podfit` command. Each module under `commands` adds its own; heavy imports happen inside the commands."""

from __future__ import annotations

import sys

import typer

from podfit.cli.commands import completion, components, describe, events, resize, token, top, version

app = typer.Typer(
    name="podfit",
    help="Fits pods and VMs to their load, in place.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
components.add_to(app)
token.add_to(app)
for command in (resize, top, describe, events, version, completion):
    command.add_to(app)


def main() -> None:
    """Errors of the user end with one line and exit code 1 (2 for a wrong command line), never with a traceback."""
    from podfit.agent.join import JoinRefused
    from podfit.agent.runtimes.base import RuntimeFailure
    from podfit.api.status import ApiError
    from podfit.client.kubeconfig import BadKubeconfig
    from podfit.client.transport import Unreachable
    from podfit.compose import BadSetting
    from podfit.store.backend import StoreError

    completion.prepare()
    try:
        app()
    except (BadSetting, BadKubeconfig, Unreachable, StoreError, RuntimeFailure, JoinRefused, ApiError) as error:
        print(f"podfit: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
