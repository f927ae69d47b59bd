"""Label sets as text: equal sets have equal text, so the text serves as a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Labels = Mapping[str, str]


def label_text(labels: Labels | Iterable[tuple[str, str]] | None) -> str:
    """The canonical text of a label set."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels or ()
    return ",".join(f"{key}={value}" for key, value in sorted(pairs))


def labels_from(text: str) -> dict[str, str]:
    """Parses a canonical text; neither names nor values of labels can contain a comma or an equals sign."""
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}  # type: ignore[misc]
