"""CPU startup boost: which containers get one, its size, and the annotation that records it.

A boosted container starts with more CPU than recommended. Its original resources are stored in an annotation until the
updater reverts the boost.
"""

from __future__ import annotations

import json

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.fitting.container_resources import ContainerResources
from podfit.vpa.model.fitting.limits import proportional_limit
from podfit.vpa.model.objects.pods import ResourceList, annotations_of, limits_of, printed, requests_of
from podfit.vpa.model.objects.policy import (
    CPU,
    RESOURCES,
    container_policy,
    controls_limits,
    scaling_off,
)

PREFIX = "vpaCpuStartupBoost"


class BoostError(ValueError):
    """The boost cannot be computed from the object."""


def boost_of(vpa: ObjectView, container: str) -> ObjectView | None:
    """The CPU boost of a container: that of its own policy, or else that of the pod; None without a CPU boost."""
    own = container_policy(vpa, container).get("startupBoost")
    boost = own if own is not None else (vpa.get("spec") or {}).get("startupBoost")
    return (boost or {}).get("cpu")


def boosted_cpu(boost: ObjectView, base: Quantity, most: Quantity | None) -> Quantity:
    """The CPU to start with. Raises BoostError if the boost's type and value do not match."""
    kind = boost.get("type") or "Factor"
    if kind == "Factor":
        factor = boost.get("factor")
        if factor is None:
            raise BoostError("startupBoost.CPU.Factor is required when Type is Factor or not specified")
        if factor < 1:
            raise BoostError("boost factor must be >= 1")
        made = Quantity.of_milli(base.milli * factor, base.format)
    elif kind == "Quantity":
        if boost.get("quantity") is None:
            raise BoostError("startupBoost.CPU.Quantity is required when Type is Quantity")
        made = Quantity.of_milli(base.milli + Quantity.parse(boost["quantity"]).milli, base.format)
    else:
        raise BoostError(f"unsupported startup boost type: {kind}")
    return most if most is not None and made > most else made


def boost_container(
    pod: ObjectView, vpa: ObjectView, name: str, wanted: ContainerResources, most: Quantity | None
) -> tuple[Quantity, Quantity] | None:
    """Raises the container's CPU. Returns its CPU without and with the boost; None without a boost."""
    policy, boost = container_policy(vpa, name), boost_of(vpa, name)
    if boost is None or scaling_off(policy):
        return None
    requests, limits = requests_of(pod, name), limits_of(pod, name)
    base = wanted.requests.get(CPU) or requests.get(CPU) or Quantity(0)
    cpu = boosted_cpu(boost, base, most)
    if controls_limits(policy):
        limit, _ = proportional_limit(CPU, limits.get(CPU), requests.get(CPU), cpu, None)
        if limit is not None:
            wanted.limits[CPU] = limit
    else:
        cpu = below_limit(cpu, limits.get(CPU))
    wanted.requests[CPU] = cpu
    return base, cpu


def annotation_key(container: str) -> str:
    return f"{PREFIX}/{container}"


def annotation_value(requests: ResourceList, limits: ResourceList) -> str:
    kept = [{name: values[name] for name in RESOURCES if name in values} for values in (requests, limits)]
    shown = {"requests": printed(kept[0]), "limits": printed(kept[1])}
    return json.dumps(shown, separators=(",", ":"))


def boosted_containers(pod: ObjectView) -> list[str]:
    return [key.removeprefix(f"{PREFIX}/") for key in annotations_of(pod) if key.startswith(f"{PREFIX}/")]


def below_limit(cpu: Quantity, limit: Quantity | None) -> Quantity:
    """Keeps a boost that must not change the limit one thousandth below it, if possible."""
    if not limit or cpu <= limit:
        return cpu
    return Quantity.of_milli(limit.milli - 1, limit.format) if limit.milli > 1 else limit
