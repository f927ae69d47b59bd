"""Explains a recommendation number by number. Pure: from the recommender's state, or from objects alone.

Each size is explained by the steps that lead to it: percentile, margin, confidence, smallest pod, the policy's and the
cluster's caps. The steps repeat the estimator's arithmetic; a test checks that both agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.policy import container_policy, controlled_resources, scaling_off
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.config import Config, from_flags, to_flags
from podfit.vpa.recommender.decide.evidence.loans import Loan
from podfit.vpa.recommender.decide.evidence.starvation import Need, raised
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState, load_aggregate
from podfit.vpa.recommender.decide.histograms.amounts import (
    amount_of,
    cpu_quantity,
    memory_quantity,
    rounded_up,
    scaled,
)
from podfit.vpa.recommender.decide.histograms.estimate import (
    LOWER,
    UPPER,
    Estimate,
    confidence,
    minimums,
    sampled_resources,
    widening,
    with_margin,
)
from podfit.vpa.recommender.decide.histograms.groupsize import group_factor
from podfit.vpa.recommender.decide.histograms.histogram import mean
from podfit.vpa.recommender.decide.postprocess import whole_cores
from podfit.vpa.runtimes.heaps import Heap

if TYPE_CHECKING:
    from podfit.vpa.policies.quality import Quality

Steps = list[dict[str, Any]]
_PERCENTILES = {
    "target": "target_{}_percentile",
    "lowerBound": "recommendation_lower_bound_{}_percentile",
    "upperBound": "recommendation_upper_bound_{}_percentile",
}
_WIDENING = {"target": None, "lowerBound": LOWER, "upperBound": UPPER}


SETTINGS = "podfit.dev/recommender-settings"
"""Annotation on a checkpoint: its recommender's settings that are not defaults, so that others can reproduce it."""
USAGE = "podfit.dev/usage"
"""Annotation on a checkpoint: its container's usage over the last days, for a policy after a restart."""
LISTENS = "listens"
"""The key in that annotation with the address of a recommender on this machine."""
DEFAULT, BATCH = "default", "batch"


def settings_note(config: Config, recommender: str, url: str = "") -> str:
    """The text of a checkpoint's annotation; empty if all settings are defaults."""
    flags = to_flags(config) | ({"recommender": recommender} if recommender not in ("", DEFAULT) else {})
    flags |= {LISTENS: url} if url else {}
    return json.dumps(flags, sort_keys=True) if flags else ""


def noted_settings(checkpoint: ObjectView) -> tuple[Config, str]:
    """The settings and the recommender's name from a checkpoint; defaults if the annotation cannot be parsed."""
    text = ((checkpoint.get("metadata") or {}).get("annotations") or {}).get(SETTINGS)
    try:
        flags = dict(json.loads(text)) if text else {}
        recommender = str(flags.pop("recommender", ""))
        flags.pop(LISTENS, None)
        return from_flags(flags), recommender
    except (ValueError, TypeError, AttributeError):
        return Config(), ""


def explain(
    vpa: ObjectView,
    states: Mapping[str, AggregateState],
    config: Config,
    ooms: Iterable[Mapping[str, Any]] = (),
    recommender: str = "",
    needs: Mapping[str, Need] | None = None,
    pods: int | None = None,
    loans: Mapping[str, tuple[Loan, Estimate]] | None = None,
    heaps: Mapping[str, Heap] | None = None,
    found: Mapping[str, int] | None = None,
    policies: Mapping[str, Estimate] | None = None,
) -> dict[str, Any]:
    """The explanation of an autoscaler's recommendation, by container and resource. `needs` are those of starved
    containers, `pods` is their number, if known, `loans` those of containers whose sizes come from similar ones,
    `heaps` those of containers whose language runtime sizes its own heap, `found` the results of squeeze probes, and
    `policies` the sizes from a policy."""
    meta = vpa.get("metadata") or {}
    counted = {name: state for name, state in states.items() if not scaling_off(container_policy(vpa, name))}
    least = minimums(config, len(counted)) if counted else {}
    events = list(ooms)
    given_needs, given_loans = needs or {}, loans or {}
    containers = {}
    for name, state in sorted(counted.items()):
        inputs = _Inputs(vpa, name, state, "", config, least, len(counted), recommender, given_needs.get(name), pods)
        inputs = replace(
            inputs, lent=given_loans.get(name), heap=(heaps or {}).get(name), enough=(found or {}).get(name)
        )
        inputs = replace(inputs, given=(policies or {}).get(name))
        containers[name] = _container(inputs, [event for event in events if event.get("container") == name])
    return {
        "namespace": meta.get("namespace") or "",
        "name": meta.get("name") or "",
        "containers": containers,
        "off": sorted(set(states) - set(counted)),
    }


def _container(inputs: _Inputs, ooms: list[Mapping[str, Any]]) -> dict[str, Any]:
    state, sampled = inputs.state, _sampled(inputs.vpa, inputs.container, inputs.state, inputs.config)
    lent = [name for name in inputs.lent[1].target if name not in sampled] if inputs.lent is not None else []
    without = sorted(set(_controlled(inputs.vpa, inputs.container)) - set(sampled) - set(lent))
    found: dict[str, Any] = {
        "samples": state.count,
        "firstSample": to_rfc3339(state.first),
        "lastSample": to_rfc3339(state.last),
        "oomEvents": ooms,
        "withoutSamples": without,
        "resources": {
            name: _resource(replace(inputs, resource=name, borrowed=name in lent)) for name in (*sampled, *lent)
        },
    }
    if inputs.lent is not None:
        loan, namespace = inputs.lent[0], (inputs.vpa.get("metadata") or {}).get("namespace") or ""
        found["similar"] = {"from": loan.words(namespace), "confidence": loan.trust, "withoutOwnSamples": lent}
    if inputs.heap is not None:
        found["runtime"] = {"heap": inputs.heap.words, "restart": inputs.heap.restart}
    return found


def _controlled(vpa: ObjectView, container: str) -> tuple[str, ...]:
    return controlled_resources(container_policy(vpa, container))


def _sampled(vpa: ObjectView, container: str, state: AggregateState, config: Config) -> list[str]:
    """The container's resources that have sizes."""
    known = sampled_resources(state, config)
    return [resource for resource in _controlled(vpa, container) if resource in known]


def explain_objects(
    vpa: ObjectView,
    checkpoints: Iterable[ObjectView],
    config: Config | None = None,
    heaps: Mapping[str, Heap] | None = None,
) -> dict[str, Any]:
    """The explanation from an autoscaler and its checkpoint objects alone, if no recommender is reachable.

    Without a configuration, the settings recorded on the checkpoints are used.
    """
    name = (vpa.get("metadata") or {}).get("name")
    own = [known for known in checkpoints if (known.get("spec") or {}).get("vpaObjectName") == name]
    noted, recommender = noted_settings(own[0]) if own else (Config(), "")
    config = config or noted
    states, unusable = {}, []
    for checkpoint in own:
        try:
            container = checkpoint["spec"].get("containerName") or ""
            states[container] = load_aggregate(checkpoint.get("status") or {}, config)
        except CheckpointError as error:
            unusable.append(str(error))
    considered = heaps if config.respect_heap_settings else None
    answer = explain(vpa, states, config, recommender=recommender, heaps=considered)
    answer["settings"] = to_flags(config)
    return {**answer, **({"unusableCheckpoints": unusable} if unusable else {})}


@dataclass(frozen=True, slots=True)
class _Inputs:
    """One resource of one container, with everything that its sizes depend on."""

    vpa: ObjectView
    container: str
    state: AggregateState
    resource: str
    config: Config
    least: Mapping[str, int]
    siblings: int
    recommender: str
    need: Need | None = None
    pods: int | None = None
    lent: tuple[Loan, Estimate] | None = None
    heap: Heap | None = None
    enough: int | None = None
    """The container's working set from a squeeze probe."""
    given: Estimate | None = None
    """The container's sizes from a policy; undecided resources are omitted."""
    borrowed: bool = False
    """The resource has no samples of its own: all its sizes come from the loan."""

    @property
    def trust(self) -> float:
        if self.borrowed and self.lent is not None:
            return self.lent[0].trust
        cpu = self.resource == "cpu"
        interval = self.config.confidence_interval_cpu if cpu else self.config.confidence_interval_memory
        return confidence(self.state.first, self.state.last, self.state.count, interval)

    @property
    def by_mean(self) -> bool:
        return self.recommender == BATCH and self.resource == "cpu"


def _resource(inputs: _Inputs) -> dict[str, Any]:
    return {"confidence": round(inputs.trust, 6), **{size: _size(inputs, size) for size in _PERCENTILES}}


def _size(inputs: _Inputs, size: str) -> dict[str, Any]:
    amount, steps = _enclosing(inputs, size)
    if (
        inputs.need is not None
        and inputs.resource == "cpu"
        and not inputs.borrowed
        and (more := _raised(inputs, inputs.need, size)) != amount
    ):
        amount = more
        steps.append(_step(f"raised: {_why_raised(inputs.need)}", inputs.resource, amount))
    if inputs.config.small_group_margin and inputs.pods is not None and size != "lowerBound":
        factor = group_factor(inputs.pods, inputs.config)
        amount = scaled(amount, factor)
        steps.append(_step(f"times {factor:.4g} for a group of {inputs.pods}", inputs.resource, amount))
    if inputs.enough is not None and inputs.resource == "memory" and size != "upperBound":
        most = with_margin(inputs.enough, inputs.config.recommendation_margin_fraction)
        if most < amount:
            amount = most
            steps.append(
                _step(("lowered to the working set found by the squeeze probe, plus the margin"), "memory", amount)
            )
    if inputs.heap is not None and inputs.resource == "memory" and inputs.heap.floor > amount:
        amount = inputs.heap.floor
        steps.append(_step(f"raised because {inputs.heap.words}", inputs.resource, amount))
    lent = inputs.lent[1].target.get(inputs.resource, 0) if inputs.lent is not None and size != "lowerBound" else 0
    if lent > amount and not inputs.borrowed:
        amount = lent
        steps.append(_step("raised to the need of similar containers", inputs.resource, amount))
    step = inputs.config.round_cpu_millicores if inputs.resource == "cpu" else inputs.config.round_memory_bytes
    if rounded_up(amount, step) != amount:
        amount = rounded_up(amount, step)
        steps.append(_step(f"rounded up to a multiple of {step}", inputs.resource, amount))
    quantity = _quantity(inputs.resource, amount)
    if inputs.resource == "cpu" and inputs.config.cpu_integer_post_processor_enabled:
        whole = whole_cores(inputs.vpa, inputs.container, quantity)
        if whole != quantity:
            quantity = whole
            steps.append({"what": "rounded up to whole cores", "value": quantity.as_written()})
    capped, words = _capped(inputs.vpa, inputs.container, inputs.resource, inputs.config, quantity)
    steps += [{"what": what, "value": value.as_written()} for what, value in words]
    return {"value": capped.as_written(), "steps": steps}


def _why_raised(need: Need) -> str:
    if need.lower_bound:
        return "the container uses up its CPU limit"
    if need.bursts:
        return "the container's bursts are throttled by its CPU limit"
    if need.sufficed > need.used_lately:
        return "a request at which the container's bursts are no longer throttled"
    return "recent usage, after the container had used up its CPU limit"


def _enclosing(inputs: _Inputs, size: str) -> tuple[int, Steps]:
    """The size and its steps as in `_estimated`, with bounds that enclose a target that is a mean."""
    if inputs.given is not None and inputs.resource in inputs.given.target:
        sizes = {"target": inputs.given.target, "lowerBound": inputs.given.lower, "upperBound": inputs.given.upper}
        amount = sizes[size][inputs.resource]
        return amount, [_step(f"policy {inputs.recommender}, from usage over time", inputs.resource, amount)]
    amount, steps = _estimated(inputs, size)
    if inputs.by_mean and size != "target":
        target = _estimated(inputs, "target")[0]
        kept = min(amount, target) if size == "lowerBound" else max(amount, target)
        if kept != amount:
            amount = kept
            steps.append(_step("moved to enclose the target", inputs.resource, amount))
    return amount, steps


def _raised(inputs: _Inputs, need: Need, size: str) -> int:
    """A size of a starved container after it was raised."""
    target, lower, upper = ({"cpu": _enclosing(inputs, bound)[0]} for bound in ("target", "lowerBound", "upperBound"))
    found = raised(Estimate(target, lower, upper), need, inputs.config)
    return {"target": found.target, "lowerBound": found.lower, "upperBound": found.upper}[size]["cpu"]


def _estimated(inputs: _Inputs, size: str) -> tuple[int, Steps]:
    """A size in whole millicores or bytes, as in the estimator, with the steps that lead to it."""
    config, resource = inputs.config, inputs.resource
    fraction = getattr(config, _PERCENTILES[size].format(resource))
    state = inputs.lent[0].state if inputs.borrowed and inputs.lent is not None else inputs.state
    histogram = state.cpu if resource == "cpu" else state.memory
    unit = 1000.0 if resource == "cpu" else 1.0
    usage = "the usage of similar containers" if inputs.borrowed else "observed usage"
    if inputs.by_mean and size == "target":
        amount, what = amount_of(mean(histogram) * unit), f"mean of {usage}"
    else:
        amount, what = amount_of(histogram.percentile(fraction) * unit), f"percentile {fraction:g} of {usage}"
    steps: Steps = [_step(what, resource, amount)]
    amount = with_margin(amount, config.recommendation_margin_fraction)
    steps.append(_step(f"plus a margin of {config.recommendation_margin_fraction:.0%}", resource, amount))
    widen = _WIDENING[size]
    if widen is not None:
        factor = widening(inputs.trust, *widen)
        amount = scaled(amount, factor)
        steps.append(_step(f"times {factor:.4g} for a confidence of {inputs.trust:.4g}", resource, amount))
    if amount < inputs.least[resource]:
        amount = inputs.least[resource]
        steps.append(_step(f"raised to the minimum of {_minimum(inputs)}", resource, amount))
    return amount, steps


def _minimum(inputs: _Inputs) -> str:
    """The flag of the smallest pod with its value, which the containers of a pod share evenly."""
    field = f"pod_recommendation_min_{'cpu_millicores' if inputs.resource == 'cpu' else 'memory_mb'}"
    flag = f"--{field.replace('_', '-')}={getattr(inputs.config, field):g}"
    return flag if inputs.siblings == 1 else f"{flag}, divided among {inputs.siblings} containers"


def _capped(
    vpa: ObjectView, container: str, resource: str, config: Config, amount: Quantity
) -> tuple[Quantity, list[tuple[str, Quantity]]]:
    policy = container_policy(vpa, container)
    words = []
    low = (policy.get("minAllowed") or {}).get(resource)
    if low is not None and (floor := Quantity.parse(low)) and amount < floor:
        amount = floor
        words.append(("raised to the policy's minAllowed", amount))
    own = (policy.get("maxAllowed") or {}).get(resource)
    limit = Quantity.parse(own) if own is not None else config.max_allowed.get(resource)
    if limit and amount > limit:
        amount = limit
        words.append(("lowered to the policy's maxAllowed" if own else "lowered to the cluster's maximum", amount))
    return amount, words


def _step(what: str, resource: str, amount: int) -> dict[str, Any]:
    return {"what": what, "value": _quantity(resource, amount).as_written()}


def _quantity(resource: str, amount: int) -> Quantity:
    return cpu_quantity(amount) if resource == "cpu" else memory_quantity(amount)


def judgements(found: Mapping[str, Mapping[str, Mapping[str, Quality]]]) -> dict[str, Any]:
    """The quality that sizes would have had, by container, policy and resource, as JSON numbers."""
    return {
        container: {
            policy: {resource: _judgement(quality) for resource, quality in each.items() if quality.scored}
            for policy, each in policies.items()
        }
        for container, policies in found.items()
    }


def _judgement(quality: Quality) -> dict[str, Any]:
    return {
        "days": quality.days,
        "slack": round(quality.slack, 6),
        "samplesShort": round(quality.short, 6),
        "daysShort": round(quality.days_short, 6),
        "resizesADay": round(quality.changes_a_day, 6),
    }
