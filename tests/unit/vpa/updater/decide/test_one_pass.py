"""A pass of the updater: it yields actions, and continues with their outcomes."""

from __future__ import annotations

from tests.support.autoscalers import DEFERRED, START_S, container, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.matching import Target
from podfit.vpa.updater.decide.actions import Evict, Resize
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.one_pass import Action, ClusterView, PassReport, controlled_pods, update_pass
from podfit.vpa.updater.decide.restriction import Attempts

EVERYTHING = LabelSelector.parse("")
WEB = Target("ns", "ReplicaSet", "web-1")
FAR = recommended(target={"cpu": "2"}, lower={"cpu": "1"}, upper={"cpu": "3"})
"""Larger than the pods' requests: every pod is worth an update."""


def world(scaler: Object, pods: list[Object]) -> ClusterView:
    return ClusterView([scaler], pods, lambda _: EVERYTHING, lambda *_: WEB, lambda _: len(pods))


def replicas(count: int) -> list[Object]:
    return [pod(f"p{number}", container(requests={"cpu": "100m"})) for number in range(count)]


def run(
    seen: ClusterView, *outcomes: str | None, config: UpdateConfig | None = None
) -> tuple[list[Action], PassReport]:
    """The actions of a pass whose first actions have these `outcomes`, and whose others succeed."""
    steps, sent, results = update_pass(seen, Attempts(), config or UpdateConfig(), START_S, START_S), [], list(outcomes)
    try:
        action = next(steps)
        while True:
            sent.append(action)
            action = steps.send(results.pop(0) if results else None)
    except StopIteration as end:
        return sent, end.value


def test_each_pod_has_the_one_autoscaler_that_controls_it() -> None:
    leaving = pod("gone", deletionTimestamp="2026-01-01T00:00:00Z")
    seen = world(vpa(FAR), [*replicas(2), leaving])
    [(scaler, pods)] = controlled_pods(seen)
    assert scaler["metadata"]["name"] == "v"
    assert [candidate["metadata"]["name"] for candidate in pods] == ["p0", "p1"]


def test_an_autoscaler_in_mode_off_or_initial_controls_no_running_pod() -> None:
    assert [controlled_pods(world(vpa(FAR, mode=mode), replicas(2))) for mode in ("Off", "Initial")] == [[], []]


def test_pods_are_resized_until_the_budget_is_used_up() -> None:
    sent, report = run(world(vpa(FAR), replicas(4)))
    assert [type(action) for action in sent] == [Resize, Resize]
    assert len(report.resized) == 2 and report.resizable == 4 and not report.evicted


def test_a_refused_resize_becomes_an_eviction() -> None:
    fine = [pod(f"fine{number}", container(requests={"cpu": "2"})) for number in range(3)]
    sent, report = run(world(vpa(FAR), [*replicas(1), *fine]), "no room")
    assert [(type(action), action.pod["metadata"]["name"]) for action in sent] == [(Resize, "p0"), (Evict, "p0")]
    assert [(reason, words) for _, _, reason, words in report.failed] == [("InPlaceUpdateError", "no room")]


def test_in_mode_in_place_nothing_is_evicted() -> None:
    config = UpdateConfig(gates={"InPlace": True})
    sent, report = run(world(vpa(FAR, mode="InPlace"), replicas(4)), "no room", "no room", config=config)
    assert {type(action) for action in sent} == {Resize}
    assert report.evicted == []


def test_in_mode_recreate_pods_are_evicted() -> None:
    sent, report = run(world(vpa(FAR, mode="Recreate"), replicas(4)))
    assert [type(action) for action in sent] == [Evict, Evict]
    assert report.evictable == 4 and len(report.evicted) == 2


def test_a_refused_eviction_uses_up_no_budget() -> None:
    sent, report = run(world(vpa(FAR, mode="Recreate"), replicas(4)), "budget")
    assert len(sent) == 3 and len(report.evicted) == 2
    assert [reason for _, _, reason, _ in report.failed] == ["EvictionError"]


def test_a_pod_whose_resize_is_deferred_is_left_to_its_node_at_first() -> None:
    waiting = pod("p0", container(requests={"cpu": "100m"}), conditions=[DEFERRED])
    sent, _ = run(world(vpa(FAR), [waiting, *replicas(4)[1:]]))
    assert all(action.pod is not waiting for action in sent)
