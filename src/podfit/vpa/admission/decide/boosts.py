"""Computes the CPU of new pods with a startup boost, full or partial. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.admission.decide.patches import NO_BOOSTS, wanted_for
from podfit.vpa.model.changing.boost import boost_container
from podfit.vpa.model.fitting.limitranges import NamespaceBounds
from podfit.vpa.model.fitting.squeeze import sized
from podfit.vpa.model.objects.pods import containers

Boosts = Mapping[str, tuple[Quantity, Quantity]]
"""The CPU of each container without and with its boost."""
PARTS = 1 << 10


def boosted(
    vpa: ObjectView,
    pod: ObjectView,
    bounds: NamespaceBounds,
    most: Quantity | None,
    boosts: Mapping[str, Quantity] = NO_BOOSTS,
) -> tuple[ObjectView, Boosts]:
    """The pod with its boosts. No boost exceeds `most`, nor the value in `boosts` for its container."""
    wanted, _ = wanted_for(pod, vpa, bounds)
    found: dict[str, tuple[Quantity, Quantity]] = {}
    for container, resources in zip(containers(pod), wanted, strict=True):
        name = container.get("name") or ""
        made = boost_container(pod, vpa, name, resources, boosts.get(name, most))
        if made is not None:
            found[name] = made
    return sized(pod, wanted), found


def shared(boosts: Boosts, part: int) -> dict[str, Quantity]:
    """The CPU that each container starts with, if it gets `part` of the PARTS of its boost."""
    return {
        name: Quantity.of_milli(base.milli + (cpu.milli - base.milli) * part // PARTS, cpu.format)
        for name, (base, cpu) in boosts.items()
    }
