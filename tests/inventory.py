"""What the code can say to its users, read from the code itself: flags, metrics, reasons, conditions.

The documentation is held complete against these lists.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.agent.runtimes.values import RUNNING, ContainerState, Limits, Usage
from podfit.agent.server.usage import exposition
from podfit.agent.server.usage.usage import ContainerSample, NodeSample, PodSample
from podfit.kit.clock import FakeClock

SOURCE = Path(__file__).resolve().parents[1] / "src" / "podfit"
SPEAKING = ("agent/", "api/resize/", "controllers/", "scheduler/", "vpa/")
"""Packages whose Events and conditions users read. (The API server's own words are Kubernetes' errors.)"""
_EVENT_CALLS = ("record", "emit", "say", "_say", "event", "_event", "refused", "tell")
_CONDITION_CALLS = ("Condition", "ResizeCondition", "condition", "_condition", "Wait", "false", "true")
_WORD = re.compile(r"^[A-Z][a-z]+(?:[A-Z]+[a-z]*)*$")
_NO_REASONS = frozenset(
    ("Normal", "Warning", "Pod", "Node", "Job", "True", "False", "Unknown", "VerticalPodAutoscaler", "Namespace")
)


def flags() -> dict[str, set[str]]:
    """Every option of every command: `token create` → {--ttl, …}."""
    import typer.main

    from podfit.cli.main import app

    found: dict[str, set[str]] = {}
    waiting = [("", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        below = getattr(command, "commands", None)
        if below:
            waiting += [(f"{name} {child}".strip(), item) for child, item in below.items()]
        else:
            options = {text for param in command.params for text in (*param.opts, *param.secondary_opts)}
            found[name] = {text for text in options if text.startswith("-")} - {"--help", "-h"}
    for name, described in autoscaler_flags().items():
        found[name] = {flag for flag, _, _ in described}
    return found


def autoscaler_flags() -> dict[str, list[tuple[str, str, str]]]:
    """The autoscaler's components read their own command lines: each flag with its default and its meaning."""
    from podfit.vpa.admission.config import AdmissionConfig
    from podfit.vpa.flags import described
    from podfit.vpa.recommender.config import RecommenderConfig
    from podfit.vpa.updater.config import UpdaterConfig

    configs = {"recommender": RecommenderConfig(), "updater": UpdaterConfig(), "admission": AdmissionConfig()}
    return {f"vpa {name}": list(described(config)) for name, config in configs.items()}


def metrics() -> set[str]:
    """Every metric's name as Prometheus sees it (counters with _total)."""
    return set(metric_labels())


def metric_labels() -> dict[str, tuple[str, ...]]:
    """The labels of every metric."""
    found: dict[str, tuple[str, ...]] = {}
    for collector, family in _families():
        labels = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", None)
        found[_name(family)] = tuple(labels or getattr(collector, "label_values", None) or ())
    return found | {name: labels for name, labels in _node_pages().items() if name not in found}


def label_values() -> dict[str, dict[str, tuple[str, ...]]]:
    """By metric and label: the values that a label can have, where they are a fixed set."""
    found = {_name(family): dict(getattr(item, "label_values", {})) for item, family in _families()}
    return {name: values for name, values in {**found, **exposition.LABEL_VALUES}.items() if values}


def label_table() -> str:
    """The table of docs/metrics.md: labels with a fixed set of values. Metrics are named where they differ."""
    having = Counter(label for labels in metric_labels().values() for label in labels)
    sets: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for metric, labels in sorted(label_values().items()):
        for label, values in labels.items():
            sets.setdefault(label, {}).setdefault(values, []).append(metric)
    lines = ["| label | values | of |", "|---|---|---|"]
    for label, found in sorted(sets.items()):
        for values, of in found.items():
            named = "" if len(of) == having[label] else ", ".join(f"`{metric}`" for metric in of)
            lines.append(f"| `{label}` | {_listed(values)} | {named} |")
    return "".join(f"{line}\n" for line in lines)


def _listed(values: tuple[str, ...]) -> str:
    if all(value.isdigit() for value in values):
        return f"`{values[0]}` to `{values[-1]}`"
    return ", ".join(f"`{value}`" if value else "empty" for value in values)


def _families() -> Iterator[tuple[Any, Metric]]:
    for registry in _registries():
        for collector in list(registry._collector_to_names):
            for family in collector.collect():
                yield collector, family


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _registries() -> Iterator[CollectorRegistry]:
    from podfit.agent.metrics import AgentMetrics
    from podfit.apiserver.apis.health import HealthMetrics
    from podfit.apiserver.flows.measures import FlowMeasures
    from podfit.apiserver.metrics import Metrics
    from podfit.client import Client
    from podfit.client.transport import HttpTransport
    from podfit.scheduler.metrics import SchedulerMetrics
    from podfit.vpa.serve.requests import measured

    yield AgentMetrics().registry
    server = Metrics()
    FlowMeasures(server.registry)
    yield server.registry
    yield HealthMetrics().registry
    yield SchedulerMetrics().registry
    for file in sorted((SOURCE / "vpa").glob("*/measures.py")):
        module = importlib.import_module(f"podfit.vpa.{file.parent.name}.measures")
        measures = getattr(module, f"{file.parent.name.title()}Measures", None)
        if measures is not None:
            registry = CollectorRegistry()
            measures(registry, FakeClock())
            measured(Client(HttpTransport("")), registry)
            if hasattr(module, "Recommendations"):
                registry.register(module.Recommendations(tuple))
                registry.register(module.PolicyQuality(dict))
            yield registry


def _node_pages() -> dict[str, tuple[str, ...]]:
    """What a node with one probed container, killed before, writes itself on its pages of metrics."""
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
    probes = SimpleNamespace(counts={("c", "livenessProbe", "successful"): 1})
    record = PodRecord("u", pod, Story(FakeClock()), probes=cast(Any, probes), ooms={"c": 1})
    state = ContainerState("i", "c", 0, RUNNING, "image", "", 1.0, 1.0)
    limits = Limits(cpu_quota_us=1000, memory_bytes=1)
    container = ContainerSample(state, Usage(1.0), limits, None)
    node = NodeSample(1.0, Usage(1.0), None, (PodSample(record, 1.0, Usage(1.0), limits, None, (container,)),))
    text = exposition.resource_page(node) + exposition.probes_page([record])
    # The cAdvisor page last: of a metric on both pages it has more labels.
    found: dict[str, tuple[str, ...]] = {}
    for page in (text, exposition.cadvisor_page(node, "/root", 1, 1)):
        for family in text_string_to_metric_families(page):
            found[_name(family)] = tuple(sorted({label for sample in family.samples for label in sample.labels}))
    return found


def reasons() -> set[str]:
    """Every word that an Event or a condition may give as its reason or type."""
    constants = _constants()
    found: set[str] = set()
    for tree, path in _trees():
        if not path.relative_to(SOURCE).as_posix().startswith(SPEAKING):
            continue
        for node in ast.walk(tree):
            found |= _spoken(node, constants)
    return {word for word in found if _WORD.match(word)} - _NO_REASONS


def is_written(message: str) -> bool:
    """Whether a component writes this message: a text of its code with something filled in, which, if it is a sentence
    of its own, has to be written, too."""
    for pattern in _messages():
        found = pattern.fullmatch(message)
        if found and all(is_written(part) for part in found.groups() if len(part.split()) > 3):
            return True
    return False


@cache
def _messages() -> list[re.Pattern[str]]:
    """Texts of the code with at least three words of their own; what is filled in may be anything."""
    found: set[str] = set()
    for tree, path in _trees():
        if not path.relative_to(SOURCE).as_posix().startswith(SPEAKING):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [value.value if isinstance(value, ast.Constant) else None for value in node.values]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            else:
                continue
            if len(re.findall(r"[A-Za-z]{2,}", " ".join(str(part) for part in parts if part is not None))) > 2:
                found.add("".join("(.+)" if part is None else re.escape(str(part)) for part in parts))
    return [re.compile(item, re.DOTALL) for item in sorted(found)]


def _spoken(node: ast.AST, constants: dict[str, set[str]]) -> set[str]:
    if isinstance(node, ast.Call) and _called(node) in (*_EVENT_CALLS, *_CONDITION_CALLS):
        values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
        return _said(values, constants)
    if isinstance(node, ast.Dict):
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        reported = [
            value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and (key.value == "reason" or (key.value == "type" and "status" in keys))
        ]
        return _said(reported, constants)
    return set()


def _said(values: list[ast.expr], constants: dict[str, set[str]]) -> set[str]:
    found = set(_words(values))
    for value in values:
        if isinstance(value, ast.Name) and value.id.isupper():
            found |= constants.get(value.id, set())
    return found


def _constants() -> dict[str, set[str]]:
    """Texts behind names in capitals, wherever they are defined."""
    found: dict[str, set[str]] = {}
    for tree, path in _trees():
        if not path.relative_to(SOURCE).as_posix().startswith(SPEAKING):
            continue
        for node in tree.body:
            if not isinstance(node, ast.Assign):
                continue
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for item, text in pairs:
                if isinstance(item, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.setdefault(item.id, set()).add(text.value)
    return found


def _trees() -> Iterator[tuple[ast.Module, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] != "testing":
            yield ast.parse(path.read_text()), path


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _words(values: list[ast.expr]) -> Iterator[str]:
    """Texts that stand there directly, or as either side of `a if b else c`."""
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.IfExp):
            yield from _words([value.body, value.orelse])
