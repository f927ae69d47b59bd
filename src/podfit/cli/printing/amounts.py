"""Amounts of cpu and memory: parsed from the command line, and printed rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.quantity import BINARY_SI, Quantity, QuantityError

RESOURCES = ("cpu", "memory")
_STEPS = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


class BadAmount(ValueError):
    """An invalid amount; the message says what is valid."""


def read_amount(text: str, what: str) -> str:
    """The canonical form of an amount typed for `what` ("--cpu")."""
    try:
        amount = Quantity.parse(text)
    except QuantityError as error:
        raise BadAmount(f"{what} {text!r}: {error} (examples: cpu 500m or 2; memory 256Mi or 1Gi)") from error
    if amount.nanos < 0:
        raise BadAmount(f"{what} {text!r}: must be greater than or equal to 0")
    if "memory" in what and 0 < amount.nanos < 10**9 * 1024:
        raise BadAmount(f"{what} {text!r}: that is less than 1 KiB; did you mean {text.rstrip('m')}Mi?")
    return str(amount)


def read_pairs(text: str, what: str) -> dict[str, str]:
    """Parses amounts written as `cpu=1,memory=512Mi`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = part.partition("=")
        if not equals or name not in RESOURCES:
            raise BadAmount(f"{what} {part!r}: it is cpu=AMOUNT, memory=AMOUNT or both with a comma between")
        found[name] = read_amount(amount, f"{what} {name}")
    return found


def number(resource: str, amount: Any) -> int:
    """A quantity as millicores or bytes; None counts as 0."""
    if amount is None:
        return 0
    parsed = Quantity.parse(amount)
    return parsed.milli if resource == "cpu" else parsed.value


def cpu_text(milli: float) -> str:
    """An amount of cpu as text; in whole cores from 100 on, because an upper bound based on few samples can be huge."""
    whole = round(milli) if milli < 100_000 else round(milli / 1000) * 1000
    return str(Quantity.of_milli(whole)) if whole else "0"


def memory_text(count: float) -> str:
    """An amount of memory rounded to about three digits; JSON output has the exact numbers."""
    whole = int(count)
    for suffix, size in _STEPS:
        if abs(whole) >= size:
            value = whole / size
            return f"{value:.0f}{suffix}" if value >= 100 or value == int(value) else f"{value:.1f}{suffix}"
    return str(whole)


def quantity(resource: str, value: int) -> str:
    """The exact amount as a Kubernetes quantity, for machines: millicores or bytes get their suffix."""
    return str(Quantity.of_milli(value) if resource == "cpu" else Quantity.of_units(value, BINARY_SI))


def quantities(amounts: Mapping[str, int] | None) -> dict[str, str]:
    return {resource: quantity(resource, value) for resource, value in (amounts or {}).items()}


def amount_text(resource: str, value: float | None) -> str:
    if value is None:
        return "-"
    return cpu_text(value) if resource == "cpu" else memory_text(value)


def pair_text(resources: Mapping[str, Any] | None, resource: str) -> str:
    """`request/limit` of one resource; "-" if not set."""
    if resources is None:
        return "?"
    requested = (resources.get("requests") or {}).get(resource)
    most = (resources.get("limits") or {}).get(resource)
    if requested is None and most is None:
        return "-"
    return "/".join(
        "-" if amount is None else amount_text(resource, number(resource, amount)) for amount in (requested, most)
    )


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"
