"""`podfit resize`: resizes running pods in place, and waits until the new size is in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.options.connect import (
    REFUSED,
    WAITING,
    WRONG_USAGE,
    Context,
    Kubeconfig,
    Namespace,
    Selector,
    connected,
)
from podfit.cli.printing.helping import Command
from podfit.cli.printing.output import (
    OBJECTS,
    ObjectOutput,
    check_format,
    echo,
    list_of,
    note,
    print_object,
    usage_error,
)
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session
    from podfit.cli.resizing.following import Followed
    from podfit.cli.resizing.plans import PlannedResize, RequestedSizes
    from podfit.cli.targets import Target

DRY_RUNS = ("none", "client", "server")
_MODES = [[mode] for mode in DRY_RUNS]
_WAITS = {"--wait=true": "--wait", "--wait=false": "--no-wait"}


class ResizeCommand(Command):
    """Accepts flags as kubectl does: `--dry-run` alone, and `--wait` with a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, as_kubectl_reads(args))


def as_kubectl_reads(words: list[str]) -> list[str]:
    """A value of `--dry-run` has to follow it with `=`, or be one of its values."""
    end = words.index("--") if "--" in words else len(words)
    read = [_WAITS.get(word, word) for word in words[:end]]
    for at, word in enumerate(read):
        if word == "--dry-run" and read[at + 1 : at + 2] not in _MODES:
            read[at] = "--dry-run=client"
    return [*read, *words[end:]]


def add_to(app: typer.Typer) -> None:
    app.command("resize", help="Resize running pods in place and wait for completion.", cls=ResizeCommand)(resize)


def resize(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET", help="A pod, or a workload as TYPE/NAME for all its pods.")
    ] = None,
    container: Annotated[
        str, typer.Option("--container", "-c", help="The container; may be omitted if the pod has only one.")
    ] = "",
    cpu: Annotated[
        str, typer.Option("--cpu", help="The new CPU request. A limit that equals the request changes with it.")
    ] = "",
    memory: Annotated[
        str, typer.Option("--memory", help="The new memory request. A limit that equals the request changes with it.")
    ] = "",
    limits: Annotated[
        str, typer.Option("--limits", metavar="cpu=Q,memory=Q", help="The new limits; omitted ones are unchanged.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the pods have their new size.")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 60.0,
    dry_run: Annotated[
        str,
        typer.Option(
            "--dry-run",
            metavar="[=MODE]",
            help="none, client (print without sending) or server (validate on the server); without a value: client.",
        ),
    ] = "none",
    selector: Selector = "",
    output: ObjectOutput = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    from podfit.cli.resizing.plans import RequestedSizes

    check_format(output, OBJECTS)
    if dry_run not in DRY_RUNS:
        usage_error(f'Invalid dry-run value ({dry_run}). Must be "none", "server", or "client".')
    requests, upper = _amounts(cpu, memory, limits)
    request = RequestedSizes(container, requests, upper)

    async def main() -> int:
        async with connected(kubeconfig, context, namespace) as session:
            return await _resize(session, targets or [], selector, request, (wait, timeout_s, dry_run, output))

    finish(main())


def _amounts(cpu: str, memory: str, limits: str) -> tuple[dict[str, str], dict[str, str]]:
    from podfit.cli.printing.amounts import BadAmount, read_amount, read_pairs

    try:
        requested = {name: read_amount(text, f"--{name}") for name, text in (("cpu", cpu), ("memory", memory)) if text}
        upper = read_pairs(limits, "--limits")
    except BadAmount as error:
        usage_error(str(error))
    if not requested and not upper:
        usage_error("say what to change: --cpu, --memory or --limits")
    return requested, upper


async def _resize(
    session: Session, words: list[str], selector: str, request: RequestedSizes, how: tuple[bool, float, str, str]
) -> int:
    from podfit.cli.resizing.overrides import override_warnings
    from podfit.cli.resizing.plans import CannotResize
    from podfit.cli.targets import NoSuchTarget, find_targets

    wait, timeout_s, dry_run, output = how
    try:
        found = await find_targets(session.client, session.namespace, words, selector)
        plans = _plans(found, request)
    except (CannotResize, NoSuchTarget) as error:
        note(f"podfit: {error}")
        return WRONG_USAGE
    changing = [plan for plan in plans if plan.changes]
    overridden = await override_warnings(session.client, plans)
    for plan in plans:
        for warning in (*plan.warnings, *overridden.get(plan.key, ())):
            note(f"Warning: pod/{plan.key[1]}: {warning}")
        if not plan.changes:
            note(f"pod/{plan.key[1]} has this size already")
    if dry_run == "client":
        _print([plan.resized for plan in changing], changing, output, "would be resized (dry run)")
        return 0
    accepted, refused = await _send(session, changing, dry_run == "server")
    if dry_run == "server":
        _print(
            list(accepted.values()),
            [change for change in changing if change.key in accepted],
            output,
            "resized (server dry run)",
        )
        return REFUSED if refused else 0
    return await _outcome(session, changing, accepted, refused, (wait, timeout_s, output), found)


def _plans(found: list[Target], request: RequestedSizes) -> list[PlannedResize]:
    from podfit.cli.resizing.plans import CannotResize, plan
    from podfit.cli.targets import alive

    plans = []
    for target in found:
        running = [pod for pod in target.pods if alive(pod)] if target.owner is not None else target.pods
        if not running:
            raise CannotResize(f"{target.name} has no running pods")
        plans += [plan(pod, request) for pod in running]
    if not plans:
        raise CannotResize("no pods found")
    return plans


async def _send(
    session: Session, plans: list[PlannedResize], dry: bool
) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[tuple[str, str], str]]:
    import asyncio

    from podfit.api.registry.kinds import POD
    from podfit.api.status import ApiError
    from podfit.client.rest import STRATEGIC

    query = {"dryRun": "All"} if dry else {}
    patches = (session.client.patch(POD, *plan.key, plan.patch, "resize", STRATEGIC, **query) for plan in plans)
    answers = await asyncio.gather(*patches, return_exceptions=True)
    accepted, refused = {}, {}
    for plan, answer in zip(plans, answers, strict=True):
        if isinstance(answer, ApiError):
            refused[plan.key] = str(answer)
            note(f"pod/{plan.key[1]}: refused: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            accepted[plan.key] = answer
    return accepted, refused


def _print(pods: list[dict[str, Any]], plans: list[PlannedResize], output: str, what: str) -> None:
    if output == "name":
        for plan in plans:
            echo(f"pod/{plan.key[1]}")
    elif output:
        shown = [_shown(pod) for pod in pods]
        print_object(output, shown[0] if len(shown) == 1 else list_of(shown))
    else:
        for plan in plans:
            echo(f"pod/{plan.key[1]} {what}: {plan.container} {', '.join(map(str, plan.changes))}")


def _shown(pod: dict[str, Any]) -> dict[str, Any]:
    """A complete object: items of lists and watches have no kind."""
    return {"apiVersion": "v1", "kind": "Pod", **pod}


async def _outcome(
    session: Session,
    plans: list[PlannedResize],
    accepted: dict[tuple[str, str], dict[str, Any]],
    refused: dict[tuple[str, str], str],
    how: tuple[bool, float, str],
    found: list[Target],
) -> int:
    from podfit.cli.resizing.following import follow

    wait, timeout_s, output = how
    sent = [plan for plan in plans if plan.key in accepted]
    if not wait or not sent:
        _print([accepted[plan.key] for plan in sent], sent, output, "resize requested")
        code = REFUSED if refused else 0
    else:
        followed = await follow(session.client, accepted, timeout_s)
        done = [plan for plan in sent if followed.steps[plan.key].done]
        _print([followed.pods[plan.key] for plan in done], done, output, "resized")
        code = REFUSED if refused else _verdict(followed, timeout_s)
    for target in found:
        if target.owner is not None and sent:
            note(f"{target.name}: its template is unchanged; new pods start with the template's size")
    return code


def _verdict(followed: Followed, timeout_s: float) -> int:
    from podfit.cli.resizing.following import words

    left = {key: step for key, step in followed.steps.items() if not step.done}
    for (_, name), step in left.items():
        state = words(step) if step.refused or step.reason == "Gone" else f"still {words(step)} after {timeout_s:g} s"
        note(f"pod/{name}: {state}; `podfit explain resize {name}` says more")
    if any(step.refused or step.reason == "Gone" for step in left.values()):
        return REFUSED
    return WAITING if left else 0
