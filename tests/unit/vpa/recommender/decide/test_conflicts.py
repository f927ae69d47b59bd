"""Several autoscalers for the same pods."""

from __future__ import annotations

from typing import Any

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.conflicts import Rivals
from podfit.vpa.recommender.decide.histograms.cluster import Vpa


def scaler(name: str, year: int, *pods: str, mode: str = "Recreate", namespace: str = "ns", **spec: Any) -> Vpa:
    created = f"{year}-01-01T00:00:00Z"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    obj = {
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": created},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": mode}, **spec},
    }
    return Vpa((namespace, name), obj, LabelSelector.parse("app=web"), pods={("ns", pod) for pod in pods})


def selecting(name: str, year: int, *pods: str) -> Vpa:
    return scaler(name, year, *pods, targetRef=None, selector={"matchLabels": {"app": "web"}})


def test_of_those_with_one_target_the_oldest_acts() -> None:
    rivals = [scaler("young", 2025), scaler("old", 2023), scaler("middle", 2024)]
    assert Rivals(rivals).inactive() == {("ns", "young"): "old", ("ns", "middle"): "old"}


def test_an_autoscaler_in_mode_off_has_no_rivals() -> None:
    assert Rivals([scaler("old", 2023, mode="Off"), scaler("young", 2025)]).inactive() == {}


def test_other_namespaces_and_other_targets_do_not_count() -> None:
    other = scaler("other", 2023, targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"})
    assert Rivals([scaler("a", 2023), scaler("b", 2024, namespace="elsewhere"), other]).inactive() == {}


def test_one_with_a_selector_is_the_rival_of_those_whose_pods_it_shares() -> None:
    vpas = [scaler("target", 2024, "a", "b"), selecting("selects", 2023, "b"), selecting("apart", 2022, "c")]
    assert Rivals(vpas).inactive() == {("ns", "target"): "selects"}


def test_of_several_winners_the_oldest_is_named() -> None:
    vpas = [selecting("oldest", 2021, "a"), scaler("old", 2022, "a"), scaler("young", 2023, "a")]
    assert Rivals(vpas).inactive() == {("ns", "old"): "oldest", ("ns", "young"): "oldest"}
