"""CEL expressions as Kubernetes has them: the language from a library, Kubernetes' own functions from `library`.

`compiled` reads an expression and complains in Kubernetes' words; `Expression.evaluate` runs it. What the language
library does not know (optional types, `cel.bind`) is refused as bad syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from podfit.api.cel.library import FUNCTIONS, NAMESPACES

Functions = Mapping[str, Callable[..., Any]]
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_UNDEFINED = re.compile(r"Undefined variable or function: '([^']*)'")
_FAILED = re.compile(r"Python function call failed: \w+: (.*?)\. Check function arguments", re.DOTALL)
_TYPES = frozenset(("int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"))


class BadExpression(ValueError):
    """It cannot be compiled; the text is what clients are told."""


class Failed(Exception):
    """It cannot be evaluated with these values."""


class Expression:
    def __init__(self, text: str) -> None:
        # Imported where it is used: the library brings a terminal along, and most servers never meet a rule.
        import cel

        self.text, self._cel = text, cel
        try:
            self._program = cel.compile(text)
        except Exception as error:
            raise BadExpression(_syntax(text, str(error))) from None

    def check(self, variables: frozenset[str]) -> None:
        """Raises BadExpression when it speaks of something that is not there."""
        known = variables | _TYPES | NAMESPACES.keys() | set(_BOUND.findall(self.text))
        for name in self._program.variables():
            if name not in known:
                raise BadExpression(_undeclared(self.text, name))

    def evaluate(self, variables: Mapping[str, Any], more: Functions | None = None) -> Any:
        functions = {**FUNCTIONS, **more} if more else FUNCTIONS
        context = self._cel.Context({**NAMESPACES, **variables}, functions)
        try:
            return self._program.execute(context)
        except KeyError as error:
            raise Failed(f"no such key: {error.args[0] if error.args else ''}") from None
        except ZeroDivisionError:
            raise Failed("division by zero") from None
        except TypeError:
            raise Failed("no such overload") from None
        except Exception as error:
            raise Failed(_why(str(error))) from None


@lru_cache(maxsize=1024)
def compiled(text: str) -> Expression:
    return Expression(text)


def problem(text: str, variables: frozenset[str]) -> str:
    """What is wrong with an expression before it is ever evaluated; empty when nothing is."""
    try:
        compiled(text).check(variables)
    except BadExpression as error:
        return f"compilation failed: {error}"
    return ""


def _syntax(text: str, told: str) -> str:
    at = told.find("ERROR: <input>")
    if at < 0:
        return f"ERROR: <input>:1:1: Syntax error: {told}\n | {text}\n | ^"
    return re.sub(r"(?m)^\|", " |", told[at:]).rstrip()


def _undeclared(text: str, name: str) -> str:
    found = re.search(rf"(?<![\w.]){re.escape(name)}\b", text)
    at = found.start() if found else 0
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1)
    shown = text.split("\n")[line - 1]
    where = f"ERROR: <input>:{line}:{column + 1}: undeclared reference to '{name}' (in container '')"
    return f"{where}\n | {shown}\n | {'.' * column}^"


def _why(told: str) -> str:
    if (found := _FAILED.search(told)) is not None:
        return found[1]
    if (found := _UNDEFINED.search(told)) is not None:
        return f"undeclared reference to '{found[1]}' (in container '')"
    return told
