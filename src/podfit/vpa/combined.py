"""The three components of the autoscaler in one process, as in `podfit up`: they share a host and a recommender.

They still communicate only through the API server, with one exception: admission calls the recommender directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from podfit.api.objects import Object
from podfit.client import Client
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import bracketed
from podfit.vpa.admission.config import AdmissionConfig, admission_config
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.admission.reviews import Reviews
from podfit.vpa.history.selected import history_for
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.serve.measures import exposition
from podfit.vpa.updater.config import UpdaterConfig, updater_config
from podfit.vpa.updater.loop import WHY_NOT, Updater

ClientFor = Callable[[str], Client]


class Autoscaler:
    def __init__(
        self,
        client_for: ClientFor,
        folder: Path,
        host: str = "127.0.0.1",
        flags: Mapping[str, Sequence[str]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`client_for` creates a client for a component's name; `flags` has the command line of each component."""
        self.clock: Clock = clock or RealClock()
        given = flags or {}
        address = f"{host}:0"
        recommending = RecommenderConfig(
            address=address, recommender_interval=15.0, storage="local", history_file=str(folder / "history.db")
        )
        recommending = recommender_config(list(given.get("recommender", ())), recommending)
        # This system is built for resizing in place: it needs no feature gate, and single replicas are resized, too.
        updating = UpdaterConfig(
            address=address,
            updater_interval=15.0,
            feature_gates={"InPlace": True},
            in_place_skip_disruption_budget=True,
        )
        updating = updater_config(list(given.get("updater", ())), updating)
        admitting = AdmissionConfig(
            address=address,
            host=host,
            port=0,
            register_by_url=True,
            webhook_address=host,
            webhook_timeout_seconds=5,
            # The API server validates autoscalers by their schema, as it does without any autoscaler installed.
            validate_vpa_objects=False,
        )
        admitting = replace(admitting, feature_gates=updating.feature_gates)
        admitting = admission_config(list(given.get("admission", ())), admitting)
        self.recommender = Recommender(
            client_for("vpa-recommender"), recommending, history_for(recommending, self.clock), self.clock
        )
        self.updater = Updater(client_for("vpa-updater"), updating, self.clock)
        # `explain` needs only the recommender's address.
        self.recommender.http.add("GET", WHY_NOT, self.updater.why_not)
        self.admission = AdmissionWebhook(client_for("vpa-admission-controller"), admitting, self.clock, ask=self._ask)
        self._tasks = Tasks("autoscaler")

    async def _ask(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any] | None:
        meta = vpa["metadata"]
        known = self.recommender.cluster.vpas.get((meta.get("namespace") or "", meta["name"]))
        given = self.recommender.recommendation_of(known) if known is not None else {}
        found = self.recommender.with_similar(vpa, pod, given.get("containerRecommendations") or [])
        return found if found or known is not None else None

    def hook_at(self, url: str) -> Reviews | None:
        """The reviews of the admission webhook, if the webhook serves this URL."""
        admission = self.admission
        host = bracketed(admission.config.host)
        return admission.reviews if admission.port and url.startswith(f"https://{host}:{admission.port}/") else None

    def pages(self) -> dict[str, Callable[[], bytes]]:
        """The metrics page of each component, as served at its own /metrics."""
        return {
            "recommender": partial(exposition, self.recommender.registry),
            "updater": partial(exposition, self.updater.registry),
            "admission": partial(exposition, self.admission.registry),
        }

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            parts = (self.recommender.run(), self.updater.run(), self.admission.run())
            names = ("recommender", "updater", "admission")
            await asyncio.gather(*(self._tasks.start(part, name) for part, name in zip(parts, names, strict=True)))
        finally:
            await self._tasks.stop()
