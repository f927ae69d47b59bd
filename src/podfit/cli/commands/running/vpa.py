"""`podfit vpa recommender|updater|admission`: the autoscaler's components, alone, against any API server.

Flags are parsed as in upstream's binaries, so that existing manifests work unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import typer

from podfit.cli.run import run, until_stopped

_OWN_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
    group.command("recommender", help="Compute recommendations from usage.", context_settings=_OWN_FLAGS)(recommender)
    group.command(
        "updater", help="Resize or evict pods that deviate from the recommendation.", context_settings=_OWN_FLAGS
    )(updater)
    group.command("admission", help="Set the sizes of new pods and validate autoscalers.", context_settings=_OWN_FLAGS)(
        admission
    )
    app.add_typer(group, name="vpa", help="Run a component of the vertical autoscaler.")


def recommender(context: typer.Context) -> None:
    from podfit.vpa.recommender.config import RecommenderConfig, recommender_config

    if _helped(context, RecommenderConfig()):
        return
    config = recommender_config(context.args)
    if config.plan:
        run(_plan(config))
        return

    def work() -> Coroutine[Any, Any, None]:
        from podfit.client.kubeconfig import load
        from podfit.vpa.standalone import recommender_alone

        return recommender_alone(load(config.kubeconfig), config)

    _run(work, config.v)


def updater(context: typer.Context) -> None:
    from podfit.vpa.updater.config import UpdaterConfig, updater_config

    if _helped(context, UpdaterConfig()):
        return
    config = updater_config(context.args)

    def work() -> Coroutine[Any, Any, None]:
        from podfit.client.kubeconfig import load
        from podfit.vpa.standalone import updater_alone

        return updater_alone(load(config.kubeconfig), config)

    _run(work, config.v)


def admission(context: typer.Context) -> None:
    from podfit.vpa.admission.config import AdmissionConfig, admission_config

    if _helped(context, AdmissionConfig()):
        return
    config = admission_config(context.args)

    def work() -> Coroutine[Any, Any, None]:
        from podfit.client.kubeconfig import load
        from podfit.vpa.standalone import admission_alone

        return admission_alone(load(config.kubeconfig), config)

    _run(work, config.v)


def _run(work: Callable[[], Coroutine[Any, Any, None]], level: int) -> None:
    """`level` is klog's: its default 4 logs warnings here, 5 also actions, 8 everything."""

    async def main() -> None:
        await until_stopped(work())

    run(main(), (level >= 5) + (level >= 8))


def _helped(context: typer.Context, default: object) -> bool:
    """Prints every flag with its default and its meaning."""
    from textwrap import fill

    from podfit.vpa.flags import described

    if not {"-h", "--help"} & set(context.args):
        return False
    print(f"Usage: podfit vpa {context.info_name} [--FLAG=VALUE]...\n")
    for name, value, text in described(default):
        print(f"  {name}={value}\n{fill(text, 79, initial_indent=' ' * 6, subsequent_indent=' ' * 6)}")
    return True


async def _plan(config: Any) -> None:
    import time

    from podfit.vpa.flags import BadFlag
    from podfit.vpa.history.base import HistoryUnavailable
    from podfit.vpa.history.promapi import QueryRefused, ResponseTooLarge
    from podfit.vpa.history.prometheus import PrometheusHistory

    history = PrometheusHistory(config.prometheus, namespace=config.vpa_object_namespace)
    try:
        plan = await history.plan(time.time())
    except (HistoryUnavailable, QueryRefused, ResponseTooLarge) as error:
        raise BadFlag(f"--plan: {error}") from error
    finally:
        await history.close()
    for what, query in (
        ("labels", plan.label_query),
        ("cpu", plan.cpu_query),
        ("memory", plan.memory_query),
        ("out of memory", plan.oom_query),
    ):
        print(f"{what}: {query}")
    for part in plan.parts:
        print(f"from {part.start:.0f} to {part.end:.0f} step {part.step:.0f}s: {2 * part.expected} samples expected")
    print(f"{3 * len(plan.parts) + 1} queries, {plan.expected} samples expected")
