"""Evaluates a validating policy for one request and one set of parameters. Accesses neither store nor clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from podfit.api.cel.cost.budget import PER_CONDITIONS, PER_OBJECT, Budget, YieldPolicy
from podfit.api.cel.evaluation.program import Program
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.values import Failed, Stopped
from podfit.api.objects import Object
from podfit.apiserver.admission.policies.expressions import Compiler, Variables

_LONGEST_MESSAGE = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True, slots=True)
class Denied:
    message: str
    reason: str = ""
    """As given by the validation; "" if it gives none, and for errors."""


@dataclass(slots=True)
class PolicyOutcome:
    denied: list[Denied] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


class Compiled:
    """The programs of a policy. Raises BadExpression for expressions stored under other rules."""

    def __init__(self, spec: Object) -> None:
        compiler = Compiler(spec)
        self.conditions = compiler.conditions(spec)
        self.variables = compiler.variables
        self.validations = [
            (row, compiler.compile(row.get("expression", "")), _optional(compiler, row.get("messageExpression")))
            for row in spec.get("validations") or ()
        ]
        self.annotations = [
            (row, compiler.compile(row.get("valueExpression", ""))) for row in spec.get("auditAnnotations") or ()
        ]


def _optional(compiler: Compiler, text: str | None) -> Program | None:
    return compiler.compile(text) if text and text.strip() else None


@lru_cache(maxsize=256)
def compiled(uid: str, generation: int, policy: CachedSpec) -> Compiled:
    """A pure cache: a uid is never reused, and a generation identifies one spec of it."""
    return Compiled(policy.spec)


class CachedSpec:
    """A policy's spec with an identity: uid and generation make it a cache key."""

    def __init__(self, spec: Object) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedSpec)


def evaluate(policy: Object, values: dict[str, Any], yielding: YieldPolicy) -> PolicyOutcome:
    """`values` are those of the request, with `params`."""
    meta, spec = policy["metadata"], policy["spec"]
    outcome, fails = PolicyOutcome(), spec.get("failurePolicy") != "Ignore"
    try:
        programs = compiled(meta.get("uid", ""), meta.get("generation", 0), CachedSpec(spec))
    except BadExpression as error:
        return _failed(outcome, str(error), fails)
    budget = Budget(PER_OBJECT, yielding=yielding)
    bound = Bound(programs, values, budget)
    matched = matches(programs, bound, Budget(PER_CONDITIONS, yielding=yielding))
    if isinstance(matched, str):
        return _failed(outcome, matched, fails)
    if matched:
        for row, program, message in programs.validations:
            _validate(row, program, message, bound, budget, outcome, fails)
        for row, program in programs.annotations:
            _annotate(row, program, bound, budget, outcome, fails)
    return outcome


class HasConditions(Protocol):
    variables: dict[str, Program]
    conditions: list[tuple[Object, Program]]


class Bound:
    """The values of one evaluation, including variables."""

    def __init__(self, programs: HasConditions, values: dict[str, Any], budget: Budget) -> None:
        self.values = {**values}
        self._variables = Variables(programs.variables, self.values, budget)

    def run(self, program: Program, budget: Budget) -> Any:
        self._variables.prepare(program.text)
        try:
            result = program.run(self.values, budget)
        except (Failed, Stopped) as error:
            why = self._variables.failure(str(error))
            return Problem(f"expression '{program.text.strip()}' resulted in error: {why}")
        return Problem(_OUT_OF_BUDGET) if budget.left < 0 else result


def _failed(outcome: PolicyOutcome, message: str, fails: bool) -> PolicyOutcome:
    if fails:
        outcome.denied.append(Denied(message))
    return outcome


def matches(programs: HasConditions, values: Bound, budget: Budget) -> bool | str:
    """Whether all conditions are true, or why that is unknown. One false condition decides, even if others fail."""
    problems: list[str] = []
    for _, program in programs.conditions:
        result = values.run(program, budget)
        if isinstance(result, Problem):
            problems.append(result.text)
        elif result is False:
            return False
    return "[" + ", ".join(problems) + "]" if len(problems) > 1 else problems[0] if problems else True


class Problem:
    def __init__(self, text: str) -> None:
        self.text = text


def _validate(
    row: Object,
    program: Program,
    message: Program | None,
    values: Bound,
    budget: Budget,
    outcome: PolicyOutcome,
    fails: bool,
) -> None:
    result = values.run(program, budget)
    if isinstance(result, Problem):
        _failed(outcome, result.text, fails)
    elif result is not True:
        outcome.denied.append(Denied(_message(row, message, values, budget), row.get("reason") or "Invalid"))


def _message(row: Object, program: Program | None, values: Bound, budget: Budget) -> str:
    if program is not None:
        made = values.run(program, budget)
        text = made.strip() if isinstance(made, str) else ""
        if text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text:
            return text
    return (row.get("message") or "").strip() or f"failed expression: {row['expression'].strip()}"


def _annotate(
    row: Object, program: Program, values: Bound, budget: Budget, outcome: PolicyOutcome, fails: bool
) -> None:
    result = values.run(program, budget)
    if isinstance(result, Problem):
        _failed(outcome, result.text, fails)
    elif isinstance(result, str):
        if result.strip():
            outcome.annotations[row.get("key", "")] = result.strip()
    elif result is not None:
        why = f"valueExpression '{row['valueExpression']}' resulted in unsupported return type"
        outcome.denied.append(Denied(f"{why}: {type(result).__name__}. Return type must be either string or null."))
