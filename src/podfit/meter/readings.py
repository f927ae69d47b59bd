"""Parses a node's /metrics/resource page. Pure. Invalid lines are skipped."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from podfit.api.numbers import Key, NodeReading, Reading
from podfit.kit.memo import Memo

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = re.compile(r"\\(.)")
_MOST_KEPT = 200_000
_OOM_ENDS = "podfit_container_oom_ends_total"


@dataclass(slots=True)
class _Found:
    cpu: dict[Key, tuple[float, float]] = field(default_factory=dict)
    memory: dict[Key, float] = field(default_factory=dict)
    started: dict[Key, float] = field(default_factory=dict)
    periods: dict[Key, float] = field(default_factory=dict)
    throttled: dict[Key, float] = field(default_factory=dict)
    oom_ends: dict[Key, int] = field(default_factory=dict)

    def reading(self, key: Key) -> Reading:
        at, cpu = self.cpu[key]
        counters = self.periods.get(key, 0.0), self.throttled.get(key, 0.0)
        return Reading(at, cpu, self.memory[key], self.started.get(key, 0.0), *counters)


_memo = Memo[str, Key](_MOST_KEPT)
"""Keys by the text of the labels, which repeat from page to page and are expensive to parse."""


def _key(labels: str) -> Key:
    key = _memo.get(labels)
    if key is None:
        found = {name: _ESCAPES.sub(_unescape, text) for name, text in _LABEL.findall(labels)}
        key = _memo.keep(labels, (found.get("namespace", ""), found.get("pod", ""), found.get("container", "")))
    return key


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def read_page(text: str, now: float) -> NodeReading:
    """Parses a page. `now` replaces timestamps that the page omits."""
    found = _Found()
    node_cpu: tuple[float, float] | None = None
    node_memory: float | None = None
    for line in text.split("\n"):
        if not line.startswith(("container_", "node_", _OOM_ENDS)):
            continue
        name, labels, value, at = _parts(line, now)
        if value is None:
            continue
        if name == "container_cpu_usage_seconds_total":
            found.cpu[_key(labels)] = (at, value)
        elif name == "container_memory_working_set_bytes":
            found.memory[_key(labels)] = value
        elif name == "container_start_time_seconds":
            found.started[_key(labels)] = value
        elif name == "container_cpu_cfs_periods_total":
            found.periods[_key(labels)] = value
        elif name == "container_cpu_cfs_throttled_periods_total":
            found.throttled[_key(labels)] = value
        elif name == _OOM_ENDS:
            found.oom_ends[_key(labels)] = int(value)
        elif name == "node_cpu_usage_seconds_total":
            node_cpu = (at, value)
        elif name == "node_memory_working_set_bytes":
            node_memory = value
    node = Reading(*node_cpu, node_memory) if node_cpu is not None and node_memory is not None else None
    # CPU without memory, or the other way round, is incomplete: skipped.
    containers = {key: found.reading(key) for key in found.cpu if key in found.memory and all(key)}
    return NodeReading(node, containers, found.oom_ends)


def _parts(line: str, now: float) -> tuple[str, str, float | None, float]:
    """Splits a line into the metric's name, its labels as written, its value and its timestamp."""
    brace = line.rfind("}")
    if brace >= 0:
        name, _, labels = line[:brace].partition("{")
        words = line[brace + 1 :].split()
    else:
        labels = ""
        name, *words = line.split()
    value = _number(words[0]) if words else None
    stamp = _number(words[1]) if len(words) > 1 else None
    return name, labels, value, stamp / 1000 if stamp else now
