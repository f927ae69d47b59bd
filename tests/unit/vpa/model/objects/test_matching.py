"""Which autoscaler controls a pod."""

from __future__ import annotations

from typing import Any

from tests.support.autoscalers import pod

from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.matching import Target, by_target, controlling_vpa


def test_oldest_autoscaler_wins_then_the_first_by_name() -> None:
    def vpa(name: str, created: str) -> dict[str, Any]:
        meta = {"namespace": "ns", "name": name, "creationTimestamp": created}
        return {"metadata": meta, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}}

    top = Target("ns", "Deployment", "web")
    many = [vpa("c", "2024-01-02T00:00:00Z"), vpa("b", "2024-01-01T00:00:00Z"), vpa("a", "2024-01-01T00:00:00Z")]
    found = controlling_vpa(pod("p"), by_target(many), lambda _: LabelSelector.parse(""), lambda *_: top)
    assert found is not None and found["metadata"]["name"] == "a"
