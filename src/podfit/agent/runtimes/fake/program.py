"""The simulated program of a fake container, parsed from its command: `sleep N`, `exit N`, `true`, `false`, `echo X`,
or several of them.

Anything else runs forever and exits with 0 on SIGTERM. As PID 1, `sleep` ignores SIGTERM, as a real one does, and a
shell handles it if the script sets a trap.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass

EXIT_ANNOTATION = "podfit.dev/fake-exit"
"""`CODE` or `CODE@SECONDS`: exits with that code after that time, whatever the command."""
STOP_ANNOTATION = "podfit.dev/fake-stop"
"""`ignore`, or the exit code after SIGTERM."""

IGNORES_TERM = None


@dataclass(frozen=True, slots=True)
class Program:
    runs_s: float = math.inf
    code: int = 0
    """The exit code after `runs_s`."""
    on_term: int | None = 0
    """The exit code after SIGTERM; None: the program ignores SIGTERM."""
    output: tuple[tuple[float, str, str], ...] = ()
    """(seconds since the start, stream, line)."""
    unknown: bool = False
    """The command, or a part of it, cannot be simulated."""


def read_program(argv: tuple[str, ...], annotations: dict[str, str]) -> Program:
    program = _read(argv)
    ends, stops = annotations.get(EXIT_ANNOTATION), annotations.get(STOP_ANNOTATION)
    runs_s, code, on_term = program.runs_s, program.code, program.on_term
    if ends is not None:
        number, _, after = ends.partition("@")
        runs_s, code = float(after or 0), int(number)
    if stops is not None:
        on_term = IGNORES_TERM if stops == "ignore" else int(stops)
    return Program(runs_s, code, on_term, program.output, program.unknown)


def _read(argv: tuple[str, ...]) -> Program:
    if not argv:
        return Program()
    if argv[0].rpartition("/")[2] in ("sh", "bash", "ash", "dash") and len(argv) > 2 and argv[1] == "-c":
        return _script(argv[2])
    return _script(shlex.join(argv))


def _script(text: str) -> Program:
    at, code, on_term = 0.0, 0, IGNORES_TERM
    output: list[tuple[float, str, str]] = []
    trap = re.search(r"trap\s+'(?:exit\s*)?(\d*)[^']*'", text)
    if trap:
        on_term = IGNORES_TERM if trap[0].endswith("''") else int(trap[1] or 0)
        text = text.replace(trap[0], "trap")
    for part in re.split(r";|&&|\n", text):
        words = _words(part)
        if not words or words[0] == "trap":
            continue
        name, rest = words[0], words[1:]
        if name == "exec" and rest:
            name, rest = rest[0], rest[1:]
        if name == "echo":
            stream = "stderr" if rest[-1:] in ([">&2"], ["1>&2"]) else "stdout"
            output.append((at, stream, " ".join(word for word in rest if word not in (">&2", "1>&2"))))
        elif name in ("true", "false", ":"):
            code = 1 if name == "false" else 0
        elif name == "sleep":
            at += _seconds(rest[0] if rest else "inf")
            code = 0
        elif name == "exit":
            return Program(at, int(rest[0]) if rest else code, on_term, tuple(output))
        else:
            return Program(math.inf, 0, on_term if trap else 0, tuple(output), unknown=True)
        if at == math.inf:
            break
    return Program(at, code, on_term, tuple(output))


def _seconds(text: str) -> float:
    """Parses seconds as sleep(1) does: 5, 0.5, 2m, 1d, infinity."""
    if text in ("inf", "infinity"):
        return math.inf
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:], 0)
    return float(text[:-1]) * unit if unit else float(text)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
