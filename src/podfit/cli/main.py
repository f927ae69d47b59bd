"""The `podfit` command. Each module under `commands` adds its own; heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from podfit.api.text.depth import allow_depth
from podfit.cli.commands.cluster import clusters, completion, doctor, image, install, kubeconfig, token, version
from podfit.cli.commands.running import agent, control_plane, demo, down, meter, up, vm_runtime, vpa
from podfit.cli.commands.workloads import backtest, describe, events, explain, migrate, recommend, resize, simulate, top
from podfit.cli.completing.answers import print_answer
from podfit.cli.completing.scripts import ASK
from podfit.cli.printing import helping
from podfit.cli.printing.output import note
from podfit.kit.process.oserrors import system_words

app = typer.Typer(
    name="podfit",
    cls=helping.Group,
    help="In-place resizing of pods and VMs: a Kubernetes-compatible cluster, an autoscaler and command-line tools.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print podfit's version and exit.")] = False,
) -> None:
    if version:
        from podfit import __version__

        print(f"podfit {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


up.add_to(app)
control_plane.add_to(app)
agent.add_to(app)
meter.add_to(app)
token.add_to(app)
for command in (
    down,
    kubeconfig,
    clusters,
    image,
    install,
    demo,
    migrate,
    recommend,
    backtest,
    simulate,
    resize,
    top,
    describe,
    explain,
    events,
    doctor,
    version,
    completion,
    vm_runtime,
    vpa,
):
    command.add_to(app)
helping.plain(app)


FOR_USERS = frozenset(
    (
        "BadSetting",
        "BadKubeconfig",
        "Unreachable",
        "StoreError",
        "RuntimeFailure",
        "JoinRefused",
        "NodeInUse",
        "ApiError",
        "BadFlag",
        "BadHistory",
        "BadScenario",
        "InvariantViolated",
        "InvalidSizes",
        "NoSuchTarget",
        "UnknownPlugin",
        "BadTokenFile",
        "InUse",
        "CannotListen",
        "DamagedKeys",
        "ImageError",
        "InvalidReference",
        "BadReservation",
        "UnusableState",
        "UnknownTopology",
        "CannotRun",
        "CannotOpen",
        "LibvirtFailed",
        "SocketInUse",
        "ImageUnusable",
    )
)
"""Errors whose message is for the user. By name, because importing all of podfit would slow every command down."""


def main() -> None:
    """User errors end with one line and exit code 1 (2 for invalid usage), never with a traceback."""
    if sys.argv[1:2] == [ASK]:
        print_answer(app, sys.argv[2:])
        return
    allow_depth()
    try:
        app(prog_name=prog_name(sys.argv[0]))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        # Errors from the system (a port that is in use, a folder without permission) are for the user, too.
        note(f"podfit: {refusal(error)}")
        sys.exit(1)
    except Exception as error:
        if not is_for_users(error):
            raise
        note(f"podfit: {error}")
        sys.exit(getattr(error, "exit_code", 1))


def complete() -> None:
    """`kubectl_complete-podfit WORD…`: the last word is the one to complete, empty at the start of a new one."""
    print_answer(app, sys.argv[1:])


def prog_name(path: str) -> str:
    """The command as typed: kubectl runs its plugin `kubectl-podfit` for `kubectl podfit`."""
    return "kubectl podfit" if path.endswith("kubectl-podfit") else "podfit"


def refusal(error: OSError) -> str:
    return str(error.strerror) if is_for_users(error) else system_words(error)


def is_for_users(error: Exception) -> bool:
    return any(base.__name__ in FOR_USERS and base.__module__.startswith("podfit.") for base in type(error).__mro__)


if __name__ == "__main__":
    main()
