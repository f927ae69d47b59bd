"""Compiles the expressions of a policy: its variables in order, and the scope of each expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.api.cel.checking.messages import MessageTypes, no_messages, patch_messages
from podfit.api.cel.cost.budget import Budget
from podfit.api.cel.evaluation.program import Environment, Program
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import BOOL, DYN, NULL, STRING, Type
from podfit.api.cel.values import Failed, Stopped
from podfit.api.objects import Object
from podfit.apiserver.admission.webhooks.conditions import VARIABLES

_USED = re.compile(r"\bvariables\s*\.\s*(\w+)")
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
TRUTH, TEXT, TEXT_OR_NULL = (BOOL,), (STRING,), (STRING, NULL)


def is_identifier(text: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(text)) and text not in _RESERVED


class Compiler:
    """Compiles expressions in the order of the policy: each may use the variables declared before it."""

    def __init__(self, spec: Object) -> None:
        self._fields: dict[str, Type] = {}
        self.composed = False
        """Whether `variables` is defined: in a policy that has some, and always where patches are made."""
        self.variables: dict[str, Program] = {}
        self._base: dict[str, Type] = {**VARIABLES, **({"params": DYN} if spec.get("paramKind") is not None else {})}

    def variable(self, name: str, text: str) -> None:
        """Raises BadExpression; the variable is declared nevertheless, so that its users do not fail as well."""
        self.composed = True
        try:
            program = self._environment().compile(text)
        except BadExpression:
            self._fields[name] = DYN
            raise
        self._fields[name] = program.type
        self.variables[name] = program

    def conditions(self, spec: Object) -> list[tuple[Object, Program]]:
        """Declares the variables of a policy, and compiles its match conditions. Raises BadExpression."""
        for row in spec.get("variables") or ():
            self.variable(row.get("name", ""), row.get("expression", ""))
        return [(row, self.compile(row.get("expression", ""))) for row in spec.get("matchConditions") or ()]

    def compile(self, text: str) -> Program:
        return self._environment().compile(text)

    def problem(self, text: str, allowed: tuple[Type, ...]) -> str:
        """Why an expression is invalid; "" if it is valid."""
        try:
            program = self.compile(text)
        except BadExpression as error:
            return str(error)
        if program.type in allowed:
            return ""
        if len(allowed) == 1:
            return f"must evaluate to {allowed[0]} but got {program.type}"
        return f"must evaluate to one of [string null_type] but got {program.type}"

    def mutation(self, text: str) -> Program:
        """An expression that creates a patch."""
        self.composed = True
        return self._environment(patch_messages).compile(text)

    def mutation_problem(self, text: str, wanted: Type) -> str:
        try:
            program = self.mutation(text)
        except BadExpression as error:
            return str(error)
        if program.type == wanted:
            return ""
        return f"must evaluate to {wanted} but got {program.type}"

    def _environment(self, messages: MessageTypes = no_messages) -> Environment:
        if not self.composed:
            return Environment(self._base, messages=messages)
        kind = Type("object", name="kubernetes.variables", fields=dict(self._fields))
        return Environment({**self._base, "variables": kind}, messages=messages)


class Variables:
    """The variables of a policy during one request. Each is evaluated before the first expression that refers to it.

    A variable that fails is omitted: an expression fails only if it uses that variable, and `failure` has the reason.
    """

    def __init__(self, programs: Mapping[str, Program], values: dict[str, Any], budget: Budget) -> None:
        self._programs, self._values, self._budget = programs, values, budget
        self._known: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        values["variables"] = self._known

    def prepare(self, text: str) -> None:
        for name in _USED.findall(text):
            if name not in self._programs or name in self._known or name in self._failed:
                continue
            program = self._programs[name]
            self.prepare(program.text)
            try:
                self._known[name] = program.run(self._values, self._budget)
            except (Failed, Stopped) as error:
                self._failed[name] = self.failure(str(error))

    def failure(self, message: str) -> str:
        """The cause of an expression's failure."""
        name = message.removeprefix("no such key: ")
        if name != message and name in self._failed:
            return f'composited variable "{name}" fails to evaluate: {self._failed[name]}'
        return message
