"""Turns estimates into the recommendation in an object's status: formatting, whole cores, policy limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from podfit.api.objects import ObjectView
from podfit.api.quantity import NANO, Quantity
from podfit.vpa.model.fitting.bounds import cap_to_policy
from podfit.vpa.model.objects.pods import ResourceList, annotations_of, resource_list
from podfit.vpa.model.objects.policy import container_policy, controlled_resources
from podfit.vpa.model.objects.recommended import Recommended, from_object
from podfit.vpa.model.similar import from_similar
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.amounts import quantities
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

_INTEGER_PREFIX, _INTEGER_SUFFIX = "vpa-post-processor.kubernetes.io/", "_integerCPU"


def formatted(
    estimates: Mapping[str, Estimate], config: Config, own: Mapping[str, Estimate | None] | None = None
) -> list[Recommended]:
    """The recommendations sorted by container name. `own` has the sizes from own samples of containers with a loan."""

    def listed(amounts: Mapping[str, int]) -> ResourceList:
        return quantities(amounts, config.humanize_memory, config.round_cpu_millicores, config.round_memory_bytes)

    uncapped = {name: sizes.target for name, sizes in estimates.items()}
    uncapped |= {name: sizes.target if sizes is not None else {} for name, sizes in (own or {}).items()}
    return [
        Recommended(name, listed(sizes.target), listed(sizes.lower), listed(sizes.upper), listed(uncapped[name]))
        for name, sizes in sorted(estimates.items())
    ]


def post_processed(vpa: ObjectView, recommended: list[Recommended], config: Config) -> list[Recommended]:
    """Rounds to whole cores if an annotation requests that, then applies the limits of the policy and the cluster,
    which win."""
    if config.cpu_integer_post_processor_enabled:
        whole = _whole_core_containers(vpa)
        recommended = [_with_whole_cores(entry) if entry.container in whole else entry for entry in recommended]
    return [_within_policy(vpa, entry, config) for entry in recommended]


def published(vpa: ObjectView, config: Config, containers: Collection[str]) -> list[Recommended]:
    """The published sizes of these containers, restricted to the current policy."""
    entries = ((vpa.get("status") or {}).get("recommendation") or {}).get("containerRecommendations") or ()
    found = [from_object(entry) for entry in entries if entry.get("containerName") in containers]
    return [_within_policy(vpa, _controlled(vpa, entry), config) for entry in found]


def _controlled(vpa: ObjectView, entry: Recommended) -> Recommended:
    """A published entry without resources that the policy no longer controls; its target is the one before any cap."""
    controlled = controlled_resources(container_policy(vpa, entry.container))

    def only(resources: ResourceList) -> ResourceList:
        return {name: amount for name, amount in resources.items() if name in controlled}

    uncapped = only(entry.uncapped if from_similar(vpa) else entry.uncapped or entry.target)
    target = {**only(entry.target), **uncapped}
    return replace(entry, target=target, lower=only(entry.lower), upper=only(entry.upper), uncapped=uncapped)


def _whole_core_containers(vpa: ObjectView) -> set[str]:
    return {
        key.removeprefix(_INTEGER_PREFIX).removesuffix(_INTEGER_SUFFIX)
        for key, value in annotations_of(vpa).items()
        if key.startswith(_INTEGER_PREFIX) and key.endswith(_INTEGER_SUFFIX) and value == "true"
    } - {""}


def whole_cores(vpa: ObjectView, container: str, cpu: Quantity) -> Quantity:
    """An amount of CPU, rounded up to whole cores if the autoscaler requests that."""
    return _rounded(cpu) if container in _whole_core_containers(vpa) else cpu


def _rounded(cpu: Quantity) -> Quantity:
    return Quantity(cpu.value * NANO, cpu.format) if cpu.nanos % NANO else cpu


def _with_whole_cores(entry: Recommended) -> Recommended:
    def rounded(resources: ResourceList) -> ResourceList:
        cpu = resources.get("cpu")
        return resources if cpu is None else {**resources, "cpu": _rounded(cpu)}

    return replace(
        entry,
        target=rounded(entry.target),
        lower=rounded(entry.lower),
        upper=rounded(entry.upper),
        uncapped=rounded(entry.uncapped),
    )


def _within_policy(vpa: ObjectView, entry: Recommended, config: Config) -> Recommended:
    policy = container_policy(vpa, entry.container)
    least = resource_list(policy.get("minAllowed"))
    most = {**config.max_allowed, **resource_list(policy.get("maxAllowed"))}
    return replace(
        entry,
        target=cap_to_policy(entry.target, least, most)[0],
        lower=cap_to_policy(entry.lower, least, most)[0],
        upper=cap_to_policy(entry.upper, least, most)[0],
    )
