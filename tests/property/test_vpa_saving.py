"""Checkpoints computed for many autoscalers at once equal those computed one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.checkpoints import checkpoints_of, checkpoints_of_all
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState

START = 1_700_000_000


def crowded(config: Config, seed: int, vpas: int, pods: int, scrapes: int, step: int) -> ClusterState:
    """Pods of two generations under each autoscaler, some with a second container, some without any sample."""
    random = np.random.default_rng(seed)
    cluster = ClusterState(config, Fleet(config))
    for number in range(vpas):
        cluster.add_vpa({"metadata": {"namespace": "n", "name": f"v{number}"}}, LabelSelector.parse(f"app=a{number}"))
    for number in range(vpas * pods):
        labels = {"app": f"a{number % vpas}", "generation": str(number % 2)}
        cluster.add_pod(("n", f"p{number}"), labels, "Running")
        for name in ("main", "side")[: 1 + number % 3 // 2]:
            cluster.add_container(("n", f"p{number}"), name)
    for number in range(scrapes):
        for (namespace, name), pod in cluster.pods.items():
            if random.random() < 0.7:
                for container in pod.containers:
                    instant = START + number * step + int(random.integers(0, 10))
                    cluster.add_cpu((namespace, name), container, int(np.exp(random.uniform(0, 10))), instant)
                    amount = int(np.exp(random.uniform(0, 26))) - 1
                    cluster.add_memory((namespace, name), container, amount, instant)
    return cluster


def close(mine: Any, theirs: Any) -> bool:
    """Equal except for the last bits of weights, because sums were computed in another order."""
    if isinstance(mine, dict):
        return bool(mine.keys() == theirs.keys()) and all(close(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, float):
        return bool(mine == pytest.approx(theirs, rel=1e-9, abs=1e-4))
    if isinstance(mine, int):
        return bool(abs(mine - theirs) <= 1)
    return bool(mine == theirs)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    vpas=st.integers(1, 4),
    pods=st.integers(0, 5),
    scrapes=st.integers(0, 6),
    step=st.sampled_from([60, 3600, 50_000, 9_000_000]),
    later=st.sampled_from([0, 3600, 100_000]),
    restarted=st.booleans(),
)
def test_all_at_once_is_one_by_one(
    seed: int, vpas: int, pods: int, scrapes: int, step: int, later: int, restarted: bool
) -> None:
    cluster = crowded(Config(), seed, vpas, pods, scrapes, step)
    now = float(START + scrapes * step + later)
    if restarted:
        for id, vpa in cluster.vpas.items():
            for checkpoint in checkpoints_of(cluster, vpa, now):
                cluster.load_checkpoint({**checkpoint, "metadata": {**checkpoint["metadata"], "namespace": id[0]}})
    members = list(cluster.vpas.values())
    # All at once first: computing one by one moves the references of what it reads, as upstream does.
    at_once = checkpoints_of_all(cluster, members, now)
    one_by_one = [checkpoints_of(cluster, vpa, now) for vpa in members]
    assert [[obj["metadata"] for obj in found] for found in at_once] == [
        [obj["metadata"] for obj in found] for found in one_by_one
    ]
    for mine, theirs in zip(at_once, one_by_one, strict=True):
        for obj, other in zip(mine, theirs, strict=True):
            assert close(obj["status"], other["status"]), (obj, other)
