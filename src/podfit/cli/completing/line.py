"""Parses an unfinished command line, to determine what its last word can be. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podfit.cli.printing.helping import is_switch

ALONE = ("--dry-run",)
"""Options whose value is optional: it has to follow with `=`."""


@dataclass
class Line:
    """The words before the one to complete."""

    command: Any
    path: list[str] = field(default_factory=list)
    """The commands: ["token", "create"]."""
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    """Values by the option's longest name."""
    pending: str = ""
    """The option whose value is being completed."""
    only_arguments: bool = False
    """After `--`."""

    @property
    def group(self) -> dict[str, Any]:
        """The subcommands that may follow; empty if the command is complete."""
        found: dict[str, Any] = getattr(self.command, "commands", None) or {}
        return {name: command for name, command in found.items() if not command.hidden}

    def option(self, name: str) -> Any | None:
        for param in self.command.params:
            if param.param_type_name == "option" and name in (*param.opts, *param.secondary_opts):
                return param
        return None


def long_name(param: Any) -> str:
    return str(max(param.opts, key=len))


def read(root: Any, words: list[str]) -> Line:
    line = Line(root)
    for word in words:
        if line.pending:
            line.options[line.pending], line.pending = word, ""
        elif word == "--" and not line.only_arguments:
            line.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not line.only_arguments:
            _take_option(line, word)
        elif word in line.group and not line.arguments:
            line.command, line.path = line.group[word], [*line.path, word]
        else:
            line.arguments.append(word)
    return line


def _take_option(line: Line, word: str) -> None:
    name, equals, value = word.partition("=")
    if not word.startswith("--"):
        # -n shop, -nshop, and switches together: -wA
        name, value = word[:2], word[2:].removeprefix("=")
        equals = value
    param = line.option(name)
    if param is None or is_switch(param):
        return
    if equals:
        line.options[long_name(param)] = value
    elif long_name(param) not in ALONE:
        line.pending = long_name(param)
