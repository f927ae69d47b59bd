"""Decisions of the updater that recordings do not show, because they differ from upstream on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.selectors import NOTHING, LabelSelector
from podfit.vpa.model.objects.matching import Target, by_target, controlling_vpa
from podfit.vpa.updater.decide.config import Config
from podfit.vpa.updater.decide.restriction import Attempts, Decision, Restriction

DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
VPA = {
    "metadata": {"namespace": "ns", "name": "vpa"},
    "spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}},
    "status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]}},
}


def pod(name: str, conditions: Any = ()) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True}
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": name,
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "app"}]},
        "status": {"phase": "Running", "conditions": list(conditions)},
    }


def decide(pods: list[Any], attempts: Attempts, config: Config, clock: float) -> Decision:
    attempts.forget(pods, config)
    return Restriction(pods, VPA, lambda _: 4, config, attempts).can_resize(pods[0], clock)


@pytest.mark.parametrize(("per_attempt", "expected"), [(False, Decision.EVICT), (True, Decision.DEFERRED)])
def test_second_deferral_waits_again_when_timeouts_count_per_attempt(per_attempt: bool, expected: Decision) -> None:
    config, attempts = Config(timeouts_per_attempt=per_attempt), Attempts()
    others = [pod("b"), pod("c"), pod("d")]
    assert decide([pod("a", DEFERRED), *others], attempts, config, 0) is Decision.DEFERRED
    assert decide([pod("a"), *others], attempts, config, 100) is Decision.APPROVED
    assert decide([pod("a", DEFERRED), *others], attempts, config, 10_000) is expected


def test_infeasible_attempts_of_pods_that_are_gone_are_forgotten() -> None:
    attempts = Attempts(infeasible={"a": {}, "gone": {}})
    attempts.forget([pod("a")], Config())
    assert set(attempts.infeasible) == {"a"}


def test_oldest_autoscaler_wins_then_the_first_by_name() -> None:
    def vpa(name: str, created: str) -> dict[str, Any]:
        meta = {"namespace": "ns", "name": name, "creationTimestamp": created}
        return {"metadata": meta, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}}

    top = Target("ns", "Deployment", "web")
    many = [vpa("c", "2024-01-02T00:00:00Z"), vpa("b", "2024-01-01T00:00:00Z"), vpa("a", "2024-01-01T00:00:00Z")]
    found = controlling_vpa(pod("p"), by_target(many), lambda _: LabelSelector.parse("app=web"), lambda *_: top)
    assert found is not None and found["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("app=web,tier!=db", {"app": "web"}, True),
        ("app=web,tier!=db", {"app": "web", "tier": "db"}, False),
        ("tier in (a, b)", {"tier": "b"}, True),
        ("tier notin (a)", {}, True),
        ("tier", {"tier": ""}, True),
        ("!tier", {"tier": "x"}, False),
        ("", {}, True),
    ],
)
def test_selector_text_selects(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


def test_missing_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert LabelSelector.from_object(None) == NOTHING
    assert not LabelSelector.from_object(None).matches({"a": "b"})
    assert LabelSelector.from_object({}).matches({"a": "b"})
    picky = LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]})
    assert picky.matches({"a": "b"}) and not picky.matches({})
