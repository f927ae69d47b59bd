"""Parses the options of the command line into a request. Invalid ones end the command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from podfit.cli.printing.amounts import BadAmount, number, read_amount
from podfit.cli.printing.output import usage_error
from podfit.cli.recommending.collecting import Filters, ReportRequest
from podfit.kit.durations import UNITS_S
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.prices import priced
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.report.decide.findings import Prices, Rules
from podfit.vpa.report.decide.sizing import RESOURCES, SizeBounds
from podfit.vpa.report.usage.saved import cache_folder

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_MOST_HISTORY_S = 90 * 86400.0
WITHOUT_PRICES = ("default", "krr")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*=.+")


def seconds(text: str, what: str) -> float:
    """Parses a duration such as `8d`, `1h30m` or `90s`."""
    found = _TIME.findall(text)
    if not found or "".join(f"{amount}{unit}" for amount, unit in found) != text:
        usage_error(f"{what} {text!r}: it is a time such as 8d, 12h or 2m")
    return sum(float(amount) * UNITS_S[unit] for amount, unit in found)


def request_of(options: dict[str, Any], namespace: str) -> ReportRequest:
    bounds = SizeBounds(_amounts(options, "min"), _amounts(options, "max"), options["keep_limits"])
    for resource in RESOURCES:
        if bounds.most.get(resource) == 0:
            usage_error(f"--max-{resource} must be above 0")
        if bounds.least.get(resource, 0) > bounds.most.get(resource, 1 << 62):
            usage_error(f"--min-{resource} is above --max-{resource}")
    return ReportRequest(
        namespace,
        Filters(_selector(options["selector"]), _kinds(options["kind"]), _names(options["names"] or ())),
        options["source"],
        prometheus_config(options),
        seconds(options["sample"], "--sample"),
        options["load"] / 100.0,
        options["rules"],
        _model(bounds),
        Rules(bounds, options["runtimes"]),
        Prices(options["price_cpu"], options["price_memory"]),
        options["sort"],
        options["policy"],
        _costs(options["policy_costs"] or (), options["policy"]),
        cache=cache_folder() if options["resume"] else None,
    )


def _amounts(options: dict[str, Any], which: str) -> dict[str, int]:
    try:
        return {
            name: number(name, read_amount(text, f"--{which}-{name}"))
            for name in RESOURCES
            if (text := options[f"{which}_{name}"])
        }
    except BadAmount as error:
        usage_error(str(error))


def _costs(words: Iterable[str], policy: str) -> Costs:
    if words and policy in WITHOUT_PRICES:
        usage_error(f"--policy-cost: policy {policy} does not choose by prices (--policy)")
    try:
        return priced(words)
    except ValueError as error:
        usage_error(f"--policy-cost {error}")


def _kinds(text: str) -> frozenset[str]:
    words = filter(None, (word.strip() for word in text.split(",")))
    return frozenset(_kind(word) for word in words)


def _kind(word: str) -> str:
    """The kind in lower case, by any name that kubectl accepts for a built-in kind; unknown words stay."""
    from podfit.api.registry.kinds import POD
    from podfit.vpa.observe.caches import WELL_KNOWN

    name = word.lower().partition(".")[0]
    return next((kind.kind.lower() for kind in (*WELL_KNOWN.values(), POD) if name in _called(kind)), name)


def _names(words: Iterable[str]) -> tuple[str, ...]:
    """`deploy/web` and `deployment.apps/web` become `deployment/web`."""
    split = (word.rpartition("/") for word in words)
    return tuple(f"{_kind(kind)}/{name}" if slash else name for kind, slash, name in split)


def _selector(text: str) -> str:
    from podfit.api.selectors import LabelSelector, SelectorError

    try:
        LabelSelector.parse(text)
    except SelectorError as error:
        usage_error(f"--selector {text!r}: {error}")
    return text


def _called(kind: Any) -> tuple[str, ...]:
    return kind.plural, kind.singular, kind.kind.lower(), *kind.short


def prometheus_config(options: dict[str, Any]) -> PrometheusConfig | None:
    length = seconds(options["history"], "--history")
    if not 600 <= length <= _MOST_HISTORY_S:
        usage_error(f"--history {options['history']}: it is between 10m and 90d")
    address = options["prometheus"]
    if not address:
        if options.get("source") == "prometheus":
            usage_error("--source prometheus: say where it is with --prometheus URL")
        return None
    if not _is_address(address):
        usage_error(f"--prometheus {address!r}: it is an address such as http://localhost:9090")
    label = options["cluster_label"]
    if label and not _LABEL.fullmatch(label):
        usage_error(f"--cluster-label {label!r}: it is a label with its value, such as cluster=production")
    return replace(
        PrometheusConfig(),
        prometheus_address=address,
        prometheus_insecure=options["insecure"],
        prometheus_query_timeout=options["timeout_s"],
        prometheus_bearer_token_file=options["bearer_token_file"],
        prometheus_cluster_label=options["cluster_label"],
        history_length=length,
    )


def _is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # The port is not a number.
        return False


def _model(bounds: SizeBounds) -> Config:
    """The model's settings. The autoscaler's own minimum pod size applies unless another minimum was given."""
    model = Config()
    if "cpu" in bounds.least:
        model = replace(model, pod_recommendation_min_cpu_millicores=float(bounds.least["cpu"]))
    if "memory" in bounds.least:
        model = replace(model, pod_recommendation_min_memory_mb=bounds.least["memory"] / (1 << 20))
    return model
