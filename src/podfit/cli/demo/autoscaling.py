"""The demo's autoscaler: the real one, with all its periods shortened to seconds, so that viewers see it act."""

from __future__ import annotations

from podfit.client import Client
from podfit.kit.concurrency.tasks import Tasks
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

SCRAPE_S = 2.0
_HALF_LIFE_S = 3.0
_INTERVAL_S = 5.0

RECOMMENDER = RecommenderConfig(
    recommender_interval=SCRAPE_S,
    address="127.0.0.1:0",
    model=Config(
        pod_recommendation_min_memory_mb=32.0,
        confidence_interval_cpu=_INTERVAL_S,
        confidence_interval_memory=_INTERVAL_S,
        memory_aggregation_interval=_INTERVAL_S,
        memory_histogram_decay_half_life=_HALF_LIFE_S,
        cpu_histogram_decay_half_life=_HALF_LIFE_S,
        round_cpu_millicores=10,
        round_memory_bytes=1 << 20,
        survive_missing_target=True,
    ),
)
UPDATER = UpdaterConfig(
    updater_interval=SCRAPE_S,
    address="127.0.0.1:0",
    min_replicas=1,
    use_admission_controller_status=False,
    in_place_skip_disruption_budget=True,
    pod_update_threshold=0.15,
    in_recommendation_bounds_eviction_lifetime_threshold=4.0,
    scale_down_delay=_INTERVAL_S,
    scale_down_step=1.0,
    undo_within=0.0,
)


def start_autoscaler(client: Client, tasks: Tasks) -> None:
    tasks.start(Recommender(client, RECOMMENDER).run(), "recommender")
    tasks.start(Updater(client, UPDATER).run(), "updater")
