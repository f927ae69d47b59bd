"""Runs one component of the autoscaler alone, against any API server: `podfit vpa recommender|updater|admission`.

Each component imports only its own modules: those of the others would take 12 MiB of memory.
"""

from __future__ import annotations

from podfit.client import Client
from podfit.client.kubeconfig import Access
from podfit.kit.clock import RealClock
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.leading import run_elected
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.updater.config import UpdaterConfig


async def recommender_alone(access: Access, config: RecommenderConfig) -> None:
    from podfit.vpa.history.selected import history_for
    from podfit.vpa.recommender.loop import Recommender

    clock, client = RealClock(), Client(access.transport("podfit-vpa-recommender"))

    async def work() -> None:
        await Recommender(client, config, history_for(config, clock), clock).run()

    try:
        await run_elected(client, config, work, clock)
    finally:
        await client.close()


async def updater_alone(access: Access, config: UpdaterConfig) -> None:
    from podfit.vpa.updater.loop import Updater

    clock, client = RealClock(), Client(access.transport("podfit-vpa-updater"))

    async def work() -> None:
        await Updater(client, config, clock).run()

    try:
        await run_elected(client, config, work, clock)
    finally:
        await client.close()


async def admission_alone(access: Access, config: AdmissionConfig) -> None:
    from podfit.vpa.admission.loop import AdmissionWebhook

    client = Client(access.transport("podfit-vpa-admission-controller"))
    try:
        await AdmissionWebhook(client, config).run()
    finally:
        await client.close()
