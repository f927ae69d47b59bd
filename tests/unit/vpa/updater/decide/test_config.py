"""The updater's feature gates."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import vpa

from podfit.vpa.updater.decide.config import UpdateConfig


@pytest.mark.parametrize(
    ("mode", "gates", "allowed"),
    [("InPlace", {}, False), ("InPlace", {"InPlace": True}, True), ("InPlaceOrRecreate", {}, True), ("Auto", {}, True)],
)
def test_only_mode_in_place_needs_its_gate(mode: str, gates: dict[str, bool], allowed: bool) -> None:
    assert UpdateConfig(gates=gates).in_place_allowed(vpa(mode=mode)) is allowed


def test_an_unnamed_gate_is_off() -> None:
    assert not UpdateConfig().gate("CPUStartupBoost")
    assert UpdateConfig(gates={"CPUStartupBoost": True}).gate("CPUStartupBoost")
