"""Compiled expressions, and the environments they are compiled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.cel.checking.checker import check
from podfit.api.cel.checking.messages import MessageTypes, no_messages
from podfit.api.cel.checking.validators import parts_of
from podfit.api.cel.cost.budget import Budget
from podfit.api.cel.cost.estimates import estimated
from podfit.api.cel.cost.sizes import SizeOf
from podfit.api.cel.evaluation.compiler import FIRST_SLOT, Compiler, Names
from podfit.api.cel.library import addresses, authorization, containers, kubernetes, numbers, strings, times
from podfit.api.cel.library.functions import Library, Overload
from podfit.api.cel.parsing.parser import parsed
from podfit.api.cel.parsing.syntax import INSTANTIATION, BadExpression, Call, Fold, Ident, ListNode, Literal, Node
from podfit.api.cel.types import Type
from podfit.api.cel.values import Failed, NoOverload, Stopped

_LIBRARY = Library()
for _part in (numbers, times, strings, containers, kubernetes, addresses, authorization):
    _LIBRARY.include(_part.LIBRARY)
# Operators with evaluation rules of their own, listed here for their signatures.
for _name, _id, _signature in (
    ("_&&_", "logical_and", "(bool, bool) bool"),
    ("_||_", "logical_or", "(bool, bool) bool"),
    ("!_", "logical_not", "(bool) bool"),
    ("_?_:_", "conditional", "(bool, A, A) A"),
    ("@not_strictly_false", "not_strictly_false", "(bool) bool"),
    ("_?._", "select_optional_field", "(dyn, string) optional(V)"),
):
    _LIBRARY.add(_name, _id, _signature, lambda *values: None)
_FUNCTIONS = {name: found for name, found in _LIBRARY.functions.items() if name != "jsonpatch.escapeKey"}
"""The libraries of expressions that do not create patches."""


class Program:
    def __init__(self, text: str, node: Node, environment: Environment) -> None:
        self.text, self.type = text, node.type
        self._node, self._names = node, tuple(environment.variables)
        compiler = Compiler(environment.variables, environment.raw)
        self._run = compiler.compile(node)
        self._slots = compiler.slots

    def uses(self, variable: str) -> bool:
        """Whether the expression refers to this variable of its environment."""
        left = [(self._node, False)]
        seen: set[int] = set()
        while left:
            node, hidden = left.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Ident) and node.name == variable and not hidden:
                return True
            if isinstance(node, Fold):
                shadowed = hidden or variable in (*node.variables, node.accumulator)
                left += [(node.range, hidden), (node.init, hidden)]
                left += [(part, shadowed) for part in (node.condition, node.step, node.result)]
            else:
                left += [(part, hidden) for part in parts_of(node)]
        return False

    def estimate(self, size_of: SizeOf) -> int:
        """The maximum cost of one evaluation, given the sizes of values."""
        return estimated(self._node, size_of)

    def run(self, values: Mapping[str, Any], budget: Budget) -> Any:
        """Evaluates the expression. Raises Failed or Stopped."""
        frame = budget.frame(self._slots)
        for at, name in enumerate(self._names, FIRST_SLOT):
            frame[at] = values.get(name)
        try:
            result = self._run(frame)
        except (Failed, Stopped):
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
            # The values do not match their declared types, because they were stored under another schema.
            raise NoOverload from None
        finally:
            budget.settle(frame)
        budget.check(frame)
        return result


def _same_name(name: str) -> str:
    return name


class Environment:
    """The variables that expressions may refer to."""

    def __init__(
        self, variables: Mapping[str, Type], raw: Names = _same_name, messages: MessageTypes = no_messages
    ) -> None:
        """`messages`: the message types that expressions may construct."""
        self.variables, self.raw, self._messages = variables, raw, messages

    def compile(self, text: str) -> Program:
        """Compiles an expression. Raises BadExpression."""
        node = parsed(text)
        functions = _FUNCTIONS if self._messages is no_messages else _LIBRARY.functions
        check(text, node, self.variables, functions, self._messages)
        _fold_conversions(node)
        return Program(text, node, self)


_CONVERSIONS = {"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"}


def _fold_conversions(root: Node) -> None:
    """Evaluates conversions of literals in advance: one that can only fail is rejected."""
    left, seen = [root], set[int]()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        left += parts_of(node)
        if isinstance(node, Call) and node.function in _CONVERSIONS and len(node.args) == 1 and node.overloads:
            literal = node.args[0]
            while isinstance(literal, Call) and literal.function == "dyn":
                literal = literal.args[0]
            if node.target is not None:
                continue
            if isinstance(literal, Literal):
                _try_conversion(node.overloads, literal.value)
            elif isinstance(literal, ListNode) and all(isinstance(item, Literal) for item in literal.items):
                raise BadExpression(f"no such overload: {node.function}(list)", INSTANTIATION)


def _try_conversion(overloads: tuple[Overload, ...], value: Any) -> None:
    for overload in overloads:
        if overload.accepts([value]):
            try:
                overload.run(value)
            except Failed as error:
                raise BadExpression(str(error), INSTANTIATION) from None
