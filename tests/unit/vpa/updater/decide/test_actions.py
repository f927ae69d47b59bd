"""Actions of the updater: the patches of resizes, and the Events of resizes and evictions."""

from __future__ import annotations

import json

from tests.support.autoscalers import READY, START_S, container, pod, recommended, vpa

from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.boost import annotation_key
from podfit.vpa.updater.decide.actions import UPDATED_IN_PLACE, Evict, expired_boosts, resize

BOOSTED = annotation_key("app")
BEFORE = json.dumps({"requests": {"cpu": "100m"}, "limits": {}})
BOOST = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 60}}}


def test_a_resize_sets_what_is_recommended_and_marks_the_pod() -> None:
    action = resize(pod(annotations={}), vpa(recommended(target={"cpu": "1", "memory": "1Gi"})), START_S)
    assert action is not None
    assert action.changes == {
        (0, "requests", "cpu"): Quantity.parse("1"),
        (0, "requests", "memory"): Quantity.parse("1Gi"),
    }
    assert [entry["path"] for entry in action.annotations] == [f"/metadata/annotations/{UPDATED_IN_PLACE}"]
    assert [event.reason for event in action.events] == ["InPlaceResizedByVPA"]


def test_a_pod_without_annotations_gets_an_empty_map_first() -> None:
    action = resize(pod(), vpa(recommended()), START_S)
    assert action is not None and action.annotations[0] == {"op": "add", "path": "/metadata/annotations", "value": {}}


def test_nothing_recommended_is_not_a_resize() -> None:
    assert resize(pod(), vpa(), START_S) is None


def test_a_boost_ends_when_the_pod_has_been_ready_for_its_duration() -> None:
    boosted = pod(annotations={BOOSTED: BEFORE}, conditions=[READY])
    scaler = vpa(recommended(), **BOOST)
    assert expired_boosts(boosted, scaler, START_S + 60) == []
    assert expired_boosts(boosted, scaler, START_S + 61) == ["app"]
    assert expired_boosts(pod(annotations={BOOSTED: BEFORE}), scaler, START_S + 61) == []


def test_a_boost_without_recommendation_ends_at_the_size_before_it() -> None:
    boosted = pod("p", container(requests={"cpu": "300m"}), annotations={BOOSTED: BEFORE}, conditions=[READY])
    action = resize(boosted, vpa(**BOOST), START_S + 61)
    assert action is not None and action.unboosted == ("app",)
    assert action.changes == {(0, "requests", "cpu"): Quantity.parse("100m")}
    assert action.annotations[-1]["op"] == "remove"


def test_a_note_of_a_boost_that_cannot_be_read_changes_nothing() -> None:
    boosted = pod(annotations={BOOSTED: "["}, conditions=[READY])
    assert resize(boosted, vpa(**BOOST), START_S + 61) is None


def test_an_eviction_has_an_event_for_the_pod_and_one_for_its_autoscaler() -> None:
    events = Evict(pod("a"), vpa(name="v")).events
    assert [(event.kind, event.name, event.reason) for event in events] == [
        ("Pod", "a", "EvictedByVPA"),
        ("VerticalPodAutoscaler", "v", "EvictedPod"),
    ]
