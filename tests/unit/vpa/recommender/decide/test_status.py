"""The status that an autoscaler should have, and whether it has changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import vpa

from podfit.api.objects import Object
from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.policy import PROVIDED
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.decide.status import (
    LOW_CONFIDENCE,
    NO_PODS,
    NO_SAMPLES,
    UNSUPPORTED,
    Condition,
    conditions,
    outcome,
    recommend,
    reported,
)

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
SIZES = {"app": Estimate({"cpu": 100}, {"cpu": 50}, {"cpu": 200})}


def scaler(obj: Object | None = None) -> Vpa:
    return Vpa(("ns", "v"), obj or vpa(), LabelSelector.parse(""), pods={("ns", "p")})


def after(obj: Object, now: str, sizes: dict[str, Estimate] = SIZES, **more: Any) -> Object | None:
    """The object with the status that is sent for it; None if none is sent."""
    decided = outcome(scaler(obj), sizes, Config(), now, **more)
    return None if decided.patch is None else {**obj, "status": decided.patch[0]["value"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((True, True, None), [(PROVIDED, True, "")]),
        ((False, True, None), [(PROVIDED, False, "")]),
        ((False, True, None, "no cpu"), [(PROVIDED, False, NO_SAMPLES)]),
        ((False, False, None), [(NO_PODS, True, NO_PODS), (PROVIDED, False, NO_PODS)]),
        ((True, True, "bad"), [(UNSUPPORTED, True, ""), (PROVIDED, True, "")]),
    ],
)
def test_conditions_that_do_not_hold_are_absent(given: Any, expected: Any) -> None:
    assert [(condition.type, condition.status, condition.reason) for condition in conditions(*given)] == expected


def test_an_unchanged_status_is_not_sent() -> None:
    first = after(vpa(), NOW)
    assert first is not None and after(first, LATER) is None


def test_another_spelling_of_an_amount_is_no_news() -> None:
    first = after(vpa(), NOW)
    assert first is not None
    first["status"]["recommendation"]["containerRecommendations"][0]["target"] = {"cpu": "0.1"}
    assert after(first, LATER) is None


def test_the_time_of_a_transition_stays_while_the_status_of_the_condition_does() -> None:
    first = after(vpa(), NOW)
    assert first is not None
    second = after(first, LATER, {"app": Estimate({"cpu": 200}, {"cpu": 50}, {"cpu": 300})})
    assert second is not None
    assert [condition["lastTransitionTime"] for condition in second["status"]["conditions"]] == [NOW]
    third = after(second, LATER, {})
    assert third is not None
    assert {condition["type"]: condition["lastTransitionTime"] for condition in third["status"]["conditions"]}[
        PROVIDED
    ] == LATER


def test_conditions_of_others_are_kept_and_those_of_ours_that_ended_are_not() -> None:
    status = {"conditions": [{"type": entry, "status": "True"} for entry in ("Foreign", NO_PODS, UNSUPPORTED)]}
    first = after(vpa(status=status), NOW, extra=[Condition(LOW_CONFIDENCE, True)])
    assert first is not None
    assert [condition["type"] for condition in first["status"]["conditions"]] == ["Foreign", LOW_CONFIDENCE, PROVIDED]


def test_kept_containers_have_what_was_published() -> None:
    entry = {"containerName": "app", "target": {"cpu": "7"}}
    first = after(vpa(entry), NOW, kept=["app"])
    assert first is not None
    [shown] = first["status"]["recommendation"]["containerRecommendations"]
    assert shown["target"] == {"cpu": "7"}


def test_people_read_a_sentence_and_the_time_of_it() -> None:
    found = reported(outcome(scaler(), SIZES, Config(), NOW, [Condition("X", True, "", "Wait")]), LATER)
    assert found.status["statusMessage"] == "Resources are recommended for 1 container. Wait."
    assert found.status["lastUpdateTime"] == LATER and found.patch is not None
    nothing = reported(outcome(scaler(), {}, Config(), NOW), LATER)
    assert nothing.status["statusMessage"] == "No recommendation yet."


def test_a_status_is_not_written_if_only_its_time_differs() -> None:
    first = after(vpa(), NOW)
    assert first is not None
    assert reported(outcome(scaler(first), SIZES, Config(), NOW), LATER).patch is None


def test_a_cluster_without_samples_recommends_nothing_and_reports_it() -> None:
    cluster = ClusterState(Config())
    made = cluster.add_vpa(vpa(), LabelSelector.parse(""))
    status = recommend(cluster, made, NOW).status
    assert status["recommendation"] == {}
    assert [condition["type"] for condition in status["conditions"]] == [NO_PODS, PROVIDED]
