"""Applies a mutating policy to one object, with one set of parameters. Accesses neither store nor clock."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from podfit.api.cel.cost.budget import PER_CONDITIONS, PER_OBJECT, Budget, YieldPolicy
from podfit.api.cel.evaluation.messages import Built, misnamed, to_json
from podfit.api.cel.evaluation.program import Program
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.values import NoOverload
from podfit.api.objects import Object
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError
from podfit.apiserver.admission.policies.evaluate import Bound, CachedSpec, Problem, matches
from podfit.apiserver.admission.policies.expressions import Compiler
from podfit.apiserver.admission.policies.patching import BadPatch, merged, patched, typed

Defaulted = Callable[[Object], Object]
"""Sets the defaults of an object that is not shared."""


@dataclass(slots=True)
class Mutated:
    object: Object
    """The object after the mutations."""
    matched: bool = True
    patched: bool = False
    """Whether a mutation was applied, even one that changed nothing."""
    problems: list[str] = field(default_factory=list)
    error: ApiError | None = None
    """An error that no failure policy can ignore."""


class CompiledMutations:
    """The programs of a policy. Raises BadExpression for expressions stored under other rules."""

    def __init__(self, spec: Object) -> None:
        compiler = Compiler(spec)
        self.conditions = compiler.conditions(spec)
        self.variables = compiler.variables
        self.mutations = [
            (row.get("patchType") == "JSONPatch", compiler.mutation(expression_of(row)))
            for row in spec.get("mutations") or ()
        ]


def expression_of(row: Object) -> str:
    holder = row.get("jsonPatch" if row.get("patchType") == "JSONPatch" else "applyConfiguration") or {}
    return str(holder.get("expression", ""))


@lru_cache(maxsize=256)
def compiled(uid: str, generation: int, policy: CachedSpec) -> CompiledMutations:
    """A pure cache: a uid is never reused, and a generation identifies one spec of it."""
    return CompiledMutations(policy.spec)


def mutate(
    policy: Object, values: dict[str, Any], obj: Object, struct: Struct, defaulted: Defaulted, yielding: YieldPolicy
) -> Mutated:
    """`values` are those of the request, with `params`."""
    meta, spec, made = policy["metadata"], policy["spec"], Mutated(obj)
    try:
        programs = compiled(meta.get("uid", ""), meta.get("generation", 0), CachedSpec(spec))
    except BadExpression as error:
        made.problems.append(str(error))
        return made
    bound = Bound(programs, {**values, "object": obj}, Budget(PER_OBJECT, yielding=yielding))
    decided = matches(programs, bound, Budget(PER_CONDITIONS, yielding=yielding))
    if decided is not True:
        made.matched = False
        made.problems += [decided] if isinstance(decided, str) else []
        return made
    for is_patch, program in programs.mutations:
        bound.values["object"] = made.object
        try:
            changed = _changed(is_patch, program, bound, made.object, struct, Budget(PER_OBJECT, yielding=yielding))
            made.object = defaulted(deepcopy(typed(changed, struct, made.object, is_patch)))
            made.patched = True
        except BadPatch as error:
            made.problems.append(str(error))
        except ApiError as error:
            made.error = error
            return made
    return made


def _changed(is_patch: bool, program: Program, bound: Bound, obj: Object, struct: Struct, budget: Budget) -> Object:
    result = bound.run(program, budget)
    if isinstance(result, Problem):
        raise BadPatch(result.text)
    if is_patch:
        return patched(obj, [_operation(row) for row in result])
    if not isinstance(result, Built):
        raise BadPatch("unsupported return type from ApplyConfiguration expression")
    _expect_names(result, result.type_name)
    return merged(obj, to_json(result), struct)


def _operation(row: Built) -> Object:
    operation = {name: row.fields[name] for name in ("op", "path", "from") if row.fields.get(name)}
    operation = {"op": "", "path": "", **operation}
    if "value" in row.fields:
        value = row.fields["value"]
        if isinstance(value, Built):
            _expect_names(value, value.type_name)
        try:
            operation["value"] = to_json(value)
        except NoOverload as error:
            why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
            raise BadPatch(f"{why}: {error}") from None
    return operation


def _expect_names(value: Built, path: str) -> None:
    if found := misnamed(value, path):
        raise BadPatch("type mismatch: " + "\n".join(found))
