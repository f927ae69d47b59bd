"""Generates days of cAdvisor metrics to backfill a Prometheus with."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.vpa.report.usage.promql import CONVENTIONS

DAYS, STEP = 8, 300


class History:
    """cAdvisor series as lines of OpenMetrics, with one naming convention for labels."""

    def __init__(self, end: int, labels: tuple[str, str, str] = CONVENTIONS[0], more: str = "") -> None:
        self.end, self._labels, self._more = end, labels, more
        self.instants = range(end - DAYS * 86400, end + 1, STEP)
        self._lines: dict[str, list[str]] = {}

    def _series(self, pod: str, container: str, more: str = "") -> str:
        values = ("default", pod, container)
        pairs = [f'{name}="{value}"' for name, value in zip(self._labels, values, strict=True)]
        return ",".join([*pairs, *filter(None, (self._more, more))])

    def usage(
        self, pod: str, cores: float, memory: float, container: str = "main", more: str = "", **span: int
    ) -> None:
        begin, end = span.get("begin", self.instants[0]), span.get("end", self.end)
        series = self._series(pod, container, more)
        cpu = self._lines.setdefault("# TYPE container_cpu_usage_seconds counter", [])
        bytes_ = self._lines.setdefault("# TYPE container_memory_working_set_bytes gauge", [])
        for at in (at for at in self.instants if begin <= at <= end):
            cpu.append(f"container_cpu_usage_seconds_total{{{series}}} {cores * (at - begin)} {at}")
            bytes_.append(f"container_memory_working_set_bytes{{{series}}} {memory} {at}")

    def add(self, head: str, *lines: str) -> None:
        self._lines.setdefault(head, []).extend(lines)

    def lines(self) -> Iterator[str]:
        for head, lines in self._lines.items():
            yield head
            yield from lines
        yield "# EOF"
