"""The memory that heap settings of JVM, Go, Node.js and .NET require. Pure.

The floor of a container is the heap that the runtime may fill before it collects garbage or fails, plus an amount for
memory outside of the heap. A heap that is a percentage of the memory limit has no floor: it follows the limit at the
next start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from podfit.vpa.runtimes.words import Words, split_options, words_of

Read = TypeVar("Read")
HEAP = "heap"
"""The field of a trimmed container for its heap, if it has one."""
MI = 1 << 20
BESIDE_FRACTION, BESIDE_LEAST = 0.1, 32 * MI
"""Memory for code, stacks and buffers beside a heap: a tenth of it, at least this much."""
MOST = 1 << 50
_JVM_SIZE = re.compile(r"^(\d+)([kKmMgGtT]?)$")
_GO_SIZE = re.compile(r"^(\d+)(B|KiB|MiB|GiB|TiB)?$")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_GO_POWERS = {None: 0, "B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}
_JAVA_ENV_BEFORE = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "JAVA_OPTIONS", "CATALINA_OPTS", "JVM_OPTS")
_JAVA_ENV_AFTER = "_JAVA_OPTIONS"
"""The JVM reads this variable after its command line, so it takes precedence."""


@dataclass(frozen=True, slots=True)
class Heap:
    """A runtime and the setting that determines its heap."""

    runtime: str
    setting: str
    heap: int | None = None
    """The heap size in bytes; None if it is a percentage of the limit."""
    percent: float | None = None
    """The heap as a percentage of the memory limit in force when the container starts."""

    @property
    def floor(self) -> int:
        """The smallest useful size in bytes; 0 if the heap follows the limit."""
        return 0 if self.heap is None else self.heap + beside(self.heap)

    def may_grow_to(self, limit: int | None) -> int:
        """The bytes that a process started under this limit may fill; 0 if unknown."""
        if self.percent is None or not limit:
            return self.floor
        heap = int(limit * self.percent / 100.0)
        return min(limit, heap + beside(heap))

    @property
    def words(self) -> str:
        if self.heap is not None:
            return f"{self.runtime} takes up to {_mib(self.heap)} of heap ({self.setting})"
        return f"{self.runtime} takes {self.percent:g} % of the memory limit as heap ({self.setting})"

    @property
    def restart(self) -> str:
        """Explains that a setting does not change with a resize until the container restarts."""
        if self.heap is not None:
            return f"{self.runtime} uses more memory only with another {self.setting.split('=')[0]} and a restart"
        return f"{self.runtime} sizes its heap at start: a resize takes effect after a restart"


def beside(heap: int) -> int:
    return max(BESIDE_LEAST, int(heap * BESIDE_FRACTION))


def heap_of(container: Mapping[str, Any]) -> Heap | None:
    """The runtime that a container's command and environment imply; None if they imply none."""
    words = words_of(container)
    for find in _FINDERS:
        if (found := find(words)) is not None:
            return found if found.heap is None or 0 < found.heap < MOST else None
    return None


# --- JVM


def _jvm(words: Words) -> Heap | None:
    options = [option for name in _JAVA_ENV_BEFORE for option in split_options(words.env.get(name, ""))]
    if "java" in words.programs or any(word.startswith(("-Xmx", "-XX:")) for word in words.line):
        options += words.line
    options += split_options(words.env.get(_JAVA_ENV_AFTER, ""))
    size = _last(options, _jvm_heap)
    if size is not None:
        return Heap("the JVM", size[0], size[1])
    share = _last(options, lambda option: _number(_after(option, "-XX:MaxRAMPercentage=")))
    return Heap("the JVM", share[0], percent=share[1]) if share is not None and 0 < share[1] <= 100 else None


def _jvm_heap(option: str) -> int | None:
    text = _after(option, "-Xmx") or _after(option, "-XX:MaxHeapSize=")
    found = _JVM_SIZE.match(text or "")
    return int(found[1]) << (10 * _POWERS[found[2].lower()]) if found else None


# --- Go


def _go(words: Words) -> Heap | None:
    if "GOMEMLIMIT" in words.of_limit:
        return Heap("Go", "GOMEMLIMIT=limits.memory", percent=100.0)
    text = words.env.get("GOMEMLIMIT", "").strip()
    found = _GO_SIZE.match(text)
    return Heap("Go", f"GOMEMLIMIT={text}", int(found[1]) << (10 * _GO_POWERS[found[2]])) if found else None


# --- Node.js


def _node(words: Words) -> Heap | None:
    options = _joined([*split_options(words.env.get("NODE_OPTIONS", "")), *words.line])
    found = _last(options, _node_heap)
    return Heap("Node.js", found[0], found[1] * MI) if found is not None else None


def _joined(options: list[str]) -> list[str]:
    """Joins the two arguments `--max-old-space-size 512` into one."""
    made = list(options)
    for at, option in enumerate(options[:-1]):
        if option.replace("_", "-") == "--max-old-space-size" and options[at + 1].isdigit():
            made[at] = f"{option}={options[at + 1]}"
    return made


def _node_heap(option: str) -> int | None:
    text = _after(option.replace("_", "-"), "--max-old-space-size=")
    return int(text) if text and text.isdigit() else None


# --- .NET


def _dotnet(words: Words) -> Heap | None:
    """The heap of .NET, whose variables contain hexadecimal numbers."""
    for prefix in ("DOTNET_", "COMPlus_"):
        limit = _hex(words.env.get(f"{prefix}GCHeapHardLimit", ""))
        if limit:
            return Heap(".NET", f"{prefix}GCHeapHardLimit={words.env[f'{prefix}GCHeapHardLimit']}", limit)
        share = _hex(words.env.get(f"{prefix}GCHeapHardLimitPercent", ""))
        if share and share <= 100:
            text = words.env[f"{prefix}GCHeapHardLimitPercent"]
            return Heap(".NET", f"{prefix}GCHeapHardLimitPercent={text}", percent=float(share))
    return None


def _hex(text: str) -> int | None:
    try:
        return int(text.strip(), 16)
    except ValueError:
        return None


_FINDERS: tuple[Callable[[Words], Heap | None], ...] = (_jvm, _go, _node, _dotnet)


def _last(options: Iterable[str], read: Callable[[str], Read | None]) -> tuple[str, Read] | None:
    found: tuple[str, Read] | None = None
    for option in options:
        value = read(option)
        if value is not None:
            found = option, value
    return found


def _after(option: str, head: str) -> str | None:
    return option[len(head) :] if option.startswith(head) else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _mib(count: int) -> str:
    return f"{count / MI:.0f}Mi" if count >= MI else f"{count} bytes"
