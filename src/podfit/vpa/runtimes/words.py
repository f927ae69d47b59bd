"""A container's environment and command line as its process will see them. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")
MEMORY_LIMIT = "limits.memory"


@dataclass(frozen=True, slots=True)
class Words:
    env: Mapping[str, str]
    of_limit: frozenset[str]
    """Variables that hold the container's memory limit, as it was when the container started."""
    line: tuple[str, ...]
    """Command and arguments; shell command lines are split into words."""

    @property
    def programs(self) -> frozenset[str]:
        """The names of programs that the command line may run: the last path component of every argument that is not an
        option."""
        return frozenset(word.rpartition("/")[2] for word in self.line if not word.startswith("-"))


def words_of(container: Mapping[str, Any]) -> Words:
    env: dict[str, str] = {}
    of_limit = set()
    for variable in container.get("env") or ():
        name, value = variable.get("name") or "", variable.get("value")
        if value is not None:
            env[name] = expanded(str(value), env)
        elif _is_limit(variable.get("valueFrom") or {}, container.get("name")):
            of_limit.add(name)
    line: list[str] = []
    for word in (*(container.get("command") or ()), *(container.get("args") or ())):
        line += _split(expanded(str(word), env))
    return Words(env, frozenset(of_limit), tuple(line))


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` by the variable's value. An unknown name is left unchanged, and `$$` becomes a dollar sign."""

    def one(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return _REFERENCE.sub(one, text)


def split_options(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _split(word: str) -> list[str]:
    return split_options(word) if any(letter.isspace() for letter in word) else [word]


def _is_limit(source: Mapping[str, Any], container: str | None) -> bool:
    field = source.get("resourceFieldRef") or {}
    own = field.get("containerName") in (None, "", container)
    return own and field.get("resource") == MEMORY_LIMIT and str(field.get("divisor") or "1") in ("0", "1")
