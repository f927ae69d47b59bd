"""New pods with a startup boost, in full or in part."""

from __future__ import annotations

from tests.support.autoscalers import container, pod, recommended, vpa

from podfit.api.quantity import Quantity
from podfit.vpa.admission.decide.boosts import PARTS, boosted, shared
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS

SCALER = vpa(recommended(target={"cpu": "100m"}), startupBoost={"cpu": {"type": "Factor", "factor": 3}})
POD = pod("p", container(requests={"cpu": "50m"}))


def test_a_boost_multiplies_what_is_recommended() -> None:
    _, boosts = boosted(SCALER, POD, NO_BOUNDS, None)
    assert boosts == {"app": (Quantity.parse("100m"), Quantity.parse("300m"))}


def test_a_boost_ends_at_the_most_that_is_allowed() -> None:
    _, boosts = boosted(SCALER, POD, NO_BOUNDS, Quantity.parse("200m"))
    assert boosts["app"][1] == Quantity.parse("200m")
    _, boosts = boosted(SCALER, POD, NO_BOUNDS, Quantity.parse("200m"), {"app": Quantity.parse("150m")})
    assert boosts["app"][1] == Quantity.parse("150m")


def test_the_pod_is_shown_with_its_boost() -> None:
    sized, _ = boosted(SCALER, POD, NO_BOUNDS, None)
    assert Quantity.parse(sized["spec"]["containers"][0]["resources"]["requests"]["cpu"]) == Quantity.parse("300m")
    assert POD["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m"}


def test_a_part_of_a_boost_lies_between_without_and_with_it() -> None:
    boosts = {"app": (Quantity.parse("100m"), Quantity.parse("300m"))}
    parts = [shared(boosts, part)["app"].milli for part in (0, PARTS // 2, PARTS)]
    assert parts == [100, 200, 300]
