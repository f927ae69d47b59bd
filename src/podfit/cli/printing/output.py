"""Output formats: tables like kubectl's, JSON, YAML, names. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer

TABLES = ("", "wide", "json", "yaml", "name")
PAGES = ("", "wide", "json", "yaml")
OBJECTS = ("", "json", "yaml", "name")
DATA = ("", "json", "yaml")
LEAST = 24
"""A wrapped column is never narrower than this."""
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")
"""All Unicode characters that move the cursor or change the text direction, except tab and line feed."""
_WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}


def output_option(formats: Sequence[str], default: str) -> Any:
    *most, last = (word for word in formats if word)
    return typer.Option(
        "--output", "-o", metavar="FORMAT", help=f"The format: {', '.join(most)} or {last}; default: {default}."
    )


Output = Annotated[str, output_option(TABLES, "a table")]
PageOutput = Annotated[str, output_option(PAGES, "text fitted to the terminal (wide: not fitted)")]
ObjectOutput = Annotated[str, output_option(OBJECTS, "a line for each pod")]
DataOutput = Annotated[str, output_option(DATA, "text")]


def usage_error(text: str) -> NoReturn:
    """Exits with the error for invalid usage."""
    note(f"podfit: {text}")
    raise typer.Exit(2)


def check_format(output: str, allowed: Sequence[str] = TABLES) -> str:
    if output not in allowed:
        known = ",".join(sorted(word for word in allowed if word))
        usage_error(
            f'unable to match a printer suitable for the output format "{output}", allowed formats are: {known}'
        )
    return output


def note(text: str) -> None:
    """Prints a message for the user on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def echo(text: str = "") -> None:
    print(visible(text), flush=True)


def visible(text: str) -> str:
    """Makes control characters visible. Text from a cluster (messages, annotations, arguments) is untrusted, and a
    terminal interprets it."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"\\u{code:04x}"


def terminal_width() -> int:
    """Columns of the terminal; 0 if the output goes elsewhere and lines must not be wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def paragraph(text: str, width: int = 0, indent: str = "  ") -> str:
    if not width:
        return indent + text
    return textwrap.fill(text, max(width, LEAST), initial_indent=indent, subsequent_indent=indent + "  ", **_WHOLE)


def fitted(text: str, width: int) -> str:
    """The lines with sentences wrapped to `width`; tables and preformatted lines are unchanged."""
    return text if not width or "\n" in text or text.startswith(" ") else paragraph(text, width, "")


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), width: int = 0) -> str:
    """A table with columns separated by three spaces. The last one is not padded, and wrapped to fit `width`."""
    lines = [tuple(header)] if header else []
    lines += [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[at]) for line in lines if at < len(line)) for at in range(max(map(len, lines)))]
    padded = (
        "   ".join(cell.ljust(widths[at]) for at, cell in enumerate(line)).rstrip()
        for line in _wrapped(lines, widths, width)
    )
    return "\n".join(padded)


def _wrapped(lines: list[tuple[str, ...]], widths: list[int], width: int) -> Iterator[tuple[str, ...]]:
    before = sum(widths[:-1]) + 3 * (len(widths) - 1)
    if not width or before + widths[-1] <= width:
        yield from lines
        return
    room = max(width - before, LEAST)
    for line in lines:
        if len(line) < len(widths):
            yield line
            continue
        first, *more = textwrap.wrap(line[-1], room, **_WHOLE) or [""]
        yield (*line[:-1], first)
        yield from ((*[""] * (len(widths) - 1), rest) for rest in more)


def print_object(output: str, value: Any) -> None:
    """Prints `value` as JSON or YAML, without the managedFields of objects in it, like kubectl."""
    value = _without_managed_fields(value)
    if output == "json":
        # JSON escapes control characters itself.
        echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, indent=4, ensure_ascii=False)))
    else:
        import yaml

        echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n"))


def _without_managed_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_managed_fields(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_managed_fields(item) for key, item in value.items() if key != "managedFields"}
    return value


def nothing_in(namespace: str) -> str:
    """The message for an empty list, in kubectl's wording."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"


def list_of(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def age(stamp: str | None, now: float | None = None) -> str:
    """The age in kubectl's format: 12s, 3m20s, 5h, 2d3h."""
    from podfit.kit.clock import parse_rfc3339

    if not stamp:
        return "<unknown>"
    return span((now if now is not None else time.time()) - parse_rfc3339(stamp))


def span(seconds: float) -> str:
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
