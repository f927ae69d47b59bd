"""Sorts Events chronologically, and formats them as rows of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.cli.printing.output import age, table
from podfit.cli.printing.wording import sized_words
from podfit.kit.clock import parse_rfc3339


def when(event: Object) -> str:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(stamp or event["metadata"].get("creationTimestamp") or "")


def in_order(events: Iterable[Object]) -> list[Object]:
    """Oldest first. Most Events have a resolution of one second: within a second, Events with microseconds come first
    (they are a scheduler's, whose decision precedes the node's actions), then the order in which the server received
    them."""
    return sorted(events, key=_moment)


def _moment(event: Object) -> tuple[int, bool, float, int]:
    stamp = when(event)
    at = parse_rfc3339(stamp) if stamp else 0.0
    revision = str(event["metadata"].get("resourceVersion") or "")
    return int(at), "." not in stamp, at, int(revision) if revision.isdigit() else 0


def event_rows(events: Iterable[Object], width: int = 0) -> str:
    rows = [[f"  {age(when(event))}", event.get("type"), event.get("reason"), _message(event)] for event in events]
    return table(rows, ["  AGE", "TYPE", "REASON", "MESSAGE"], width)


def _message(event: Object) -> str:
    message = sized_words(str(event.get("message") or "").strip().replace("\n", " "))
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    found = re.search(r"\{(.+)\}$", str((event.get("involvedObject") or {}).get("fieldPath") or ""))
    if found and not re.search(rf"\b{re.escape(found[1])}\b", message):
        message = f"{found[1]}: {message}"
    return f"{message} (x{count})" if count > 1 else message
