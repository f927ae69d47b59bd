"""The phase of a volume follows its claim."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.controllers.volumes.phases import phase_of

REFERENCE = {"namespace": "d", "name": "c", "uid": "u"}


def claim(uid: str = "u", volume: str = "v") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"volumeName": volume}}


@pytest.mark.parametrize(
    ("reference", "bound_to", "phase", "wanted"),
    [
        (None, None, "Pending", "Available"),
        ({"namespace": "d", "name": "c"}, claim(), "Pending", "Available"),
        (REFERENCE, claim(), "Available", "Bound"),
        (REFERENCE, claim(volume=""), "Available", ""),
        (REFERENCE, claim(uid="later"), "Bound", "Released"),
        (REFERENCE, None, "Bound", "Released"),
        (REFERENCE, None, "Failed", ""),
    ],
)
def test_the_phase_of_a_volume(reference: Any, bound_to: Any, phase: str, wanted: str) -> None:
    volume = {"metadata": {"name": "v"}, "spec": {"claimRef": reference}, "status": {"phase": phase}}
    assert phase_of(volume, bound_to) == wanted
