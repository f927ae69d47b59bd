"""Formats the report of `podfit recommend` as a table, as CSV and as data."""

from __future__ import annotations

import csv
import io
from typing import Any

from podfit.cli.printing.amounts import amount_text, quantity
from podfit.cli.printing.output import table
from podfit.vpa.model.times import NEVER, to_rfc3339
from podfit.vpa.report.decide.findings import GI, Finding, Report
from podfit.vpa.report.decide.sizing import RESOURCES, ContainerSizes


def change_text(resource: str, now: ContainerSizes, fits: ContainerSizes) -> str:
    """`500m → 120m`; one number if both are equal."""
    before, after = now.requests.get(resource), fits.requests.get(resource)
    if after is None:
        return f"{amount_text(resource, before)} → ?"
    shown = [amount_text(resource, before) if before is not None else "unset", amount_text(resource, after)]
    return shown[0] if shown[0] == shown[1] else " → ".join(shown)


def limit_text(resource: str, now: ContainerSizes, fits: ContainerSizes) -> str:
    before, after = now.limits.get(resource), fits.limits.get(resource, now.limits.get(resource))
    shown = [amount_text(resource, before), amount_text(resource, after)]
    return shown[0] if shown[0] == shown[1] else " → ".join(shown)


def waste_text(finding: Finding, resource: str) -> str:
    """The waste as text: `-` if nothing is requested, `?` if there is no recommendation."""
    amount = finding.wasted(resource)
    if amount is None:
        return "?" if finding.unknown(resource) else "-"
    return f"-{amount_text(resource, -amount)}" if amount < 0 else amount_text(resource, amount)


def total_text(report: Report, resource: str) -> str:
    """Cores or GiB that are wasted in total."""
    total = report.total(resource)
    return "?" if total is None else f"{total / (1000 if resource == 'cpu' else GI):.1f}"


def cost_text(cost: float | None) -> str:
    return "?" if cost is None else f"{cost:.2f}"


def as_table(report: Report, wide: bool, everywhere: bool) -> str:
    header = (["NAMESPACE"] if everywhere else []) + ["WORKLOAD", "CONTAINER", "PODS", "CPU", "MEMORY"]
    header += ["CPU LIMIT", "MEMORY LIMIT", "USED CPU", "USED MEMORY"] if wide else []
    header += ["WASTED CPU", "WASTED MEMORY", *(["A MONTH"] if report.prices.given else []), "RISK", "CONFIDENCE"]
    header += ["SOURCE", "WHY"] if wide else []
    return table([_cells(report, finding, wide, everywhere) for finding in report.findings], header)


def _cells(report: Report, finding: Finding, wide: bool, everywhere: bool) -> list[str]:
    cells = [finding.key.namespace] if everywhere else []
    cells += [f"{finding.key.kind.lower()}/{finding.key.name}", finding.container, str(finding.replicas)]
    cells += [change_text(resource, finding.now, finding.recommended) for resource in RESOURCES]
    if wide:
        used = finding.evidence.used if finding.evidence is not None else {}
        cells += [limit_text(resource, finding.now, finding.recommended) for resource in RESOURCES]
        cells += [amount_text(resource, used.get(resource)) for resource in RESOURCES]
    cells += [waste_text(finding, resource) for resource in RESOURCES]
    cells += [cost_text(finding.monthly(report.prices))] if report.prices.given else []
    cells += [", ".join(finding.risks) or "-", confidence_text(finding)]
    if wide:
        cells += [
            finding.evidence.source if finding.evidence is not None else "-",
            "; ".join((*finding.why, *finding.notes)) or "-",
        ]
    return cells


def confidence_text(finding: Finding) -> str:
    if finding.evidence is None:
        return "none"
    days = finding.evidence.days
    return f"{finding.evidence.confidence} ({f'{days:.1f}d' if days >= 1 else f'{days * 24:.1f}h'})"


def summary(report: Report) -> str:
    count = len(report.findings)
    words = f"{count} container{'s' * (count != 1)}: {total_text(report, 'cpu')} cores"
    words += f" and {total_text(report, 'memory')} GiB wasted"
    if report.prices.given:
        words += f" ({cost_text(report.monthly)} a month)"
    short = [f"{amount_text(name, report.short(name))} {name}" for name in RESOURCES if report.short(name)]
    words += f", {' and '.join(short)} too little" if short else ""
    words += f", {report.at_risk} at risk" if report.at_risk else ""
    return words + (f", {report.without} without usage" if report.without else "")


CSV_HEADER = (
    "namespace", "kind", "name", "container", "pods",
    "cpu_request_m", "cpu_limit_m", "memory_request_bytes", "memory_limit_bytes",
    "recommended_cpu_request_m", "recommended_cpu_limit_m",
    "recommended_memory_request_bytes", "recommended_memory_limit_bytes",
    "used_cpu_p95_m", "used_memory_max_bytes", "wasted_cpu_m", "wasted_memory_bytes", "monthly_cost",
    "risk", "confidence", "days", "source", "partial", "why",
)  # fmt: skip


def as_csv(report: Report) -> str:
    """The report as CSV. Unknown values are empty cells, never 0."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for finding in report.findings:
        known = finding.evidence
        used = known.used if known is not None else {}
        sizes = [
            amounts.get(resource)
            for size in (finding.now, finding.recommended)
            for resource in RESOURCES
            for amounts in (size.requests, size.limits)
        ]
        writer.writerow(
            [
                *finding.key[:1],
                finding.key.kind,
                finding.key.name,
                finding.container,
                finding.replicas,
                *sizes,
                used.get("cpu"),
                used.get("memory"),
                finding.wasted("cpu"),
                finding.wasted("memory"),
                f"{cost:.4f}" if report.prices.given and (cost := finding.monthly(report.prices)) is not None else None,
                ", ".join(finding.risks),
                known.confidence if known is not None else "none",
                f"{known.days:.2f}" if known is not None else None,
                known.source if known is not None else None,
                "yes" if report.missing else "no",
                "; ".join((*finding.why, *finding.notes)),
            ]
        )
    return out.getvalue()


def as_data(report: Report) -> dict[str, Any]:
    """The report for programs: quantities are in Kubernetes' format."""
    return {
        "apiVersion": "podfit.dev/v1",
        "kind": "RecommendationReport",
        "made": to_rfc3339(report.made),
        "policy": report.policy,
        "sources": list(report.sources),
        "partial": bool(report.missing),
        "missing": list(report.missing),
        "notes": list(report.notes),
        "wasted": {name: None if (all_ := report.total(name)) is None else quantity(name, all_) for name in RESOURCES},
        **_cost(report, report.monthly),
        "containers": [_data(report, finding) for finding in report.findings],
    }


def _cost(report: Report, cost: float | None) -> dict[str, float | None]:
    return {"monthlyCost": None if cost is None else round(cost, 4)} if report.prices.given else {}


def _data(report: Report, finding: Finding) -> dict[str, Any]:
    known = finding.evidence
    return {
        "namespace": finding.key.namespace,
        "kind": finding.key.kind,
        "name": finding.key.name,
        "container": finding.container,
        "pods": finding.replicas,
        "now": resources(finding.now),
        "recommended": resources(finding.recommended) if finding.recommended.requests else None,
        "wasted": {name: quantity(name, amount) for name in RESOURCES if (amount := finding.wasted(name)) is not None},
        **_cost(report, finding.monthly(report.prices)),
        "risks": list(finding.risks),
        "confidence": known.confidence if known is not None else "none",
        "evidence": _evidence(finding),
        **({"runtime": finding.heap.words} if finding.heap is not None else {}),
        "why": list(finding.why),
        "notes": list(finding.notes),
    }


def _evidence(finding: Finding) -> dict[str, Any] | None:
    known = finding.evidence
    if known is None:
        return None
    return {
        "source": known.source,
        "samples": known.samples,
        "pods": known.pods,
        "days": round(known.days, 3),
        "coverage": round(known.coverage, 3),
        **({"from": to_rfc3339(known.first), "until": to_rfc3339(known.last)} if known.first != NEVER else {}),
        "used": {name: quantity(name, amount) for name, amount in known.used.items()},
        "outOfMemoryKills": known.ooms,
        **({"throttled": round(known.throttled, 4)} if known.throttled is not None else {}),
    }


def resources(sizes: ContainerSizes) -> dict[str, dict[str, str]]:
    made = {"requests": sizes.requests, "limits": sizes.limits}
    return {
        kind: {name: quantity(name, amount) for name, amount in amounts.items()}
        for kind, amounts in made.items()
        if amounts
    }
