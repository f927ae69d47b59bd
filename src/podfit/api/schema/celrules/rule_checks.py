"""Checks the rules of a definition: rules that do not compile, or whose cost may be too high."""

from __future__ import annotations

from typing import Any

from podfit.api.cel.cost.sizes import MOST
from podfit.api.schema.celrules.rule_places import RULES
from podfit.api.schema.celrules.rule_types import LARGEST_REQUEST, Declared, declared
from podfit.api.schema.celrules.rules import CompiledRule
from podfit.api.status import FieldError, field_forbidden, invalid

Schema = dict[str, Any]
PER_RULE, PER_DEFINITION = 10_000_000, 100_000_000
_SHOWN = 4
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def rule_problems(schema: Schema, path: str, stored: bool = False) -> list[FieldError]:
    """Errors of the rules in a schema. If it is `stored` (was accepted before), the cost of single rules is
    unlimited."""
    checks = _Checks(stored)
    checks.place(schema, path, 1, "", root=True)
    return checks.errors + checks.total(path)


class _Checks:
    def __init__(self, stored: bool) -> None:
        self.errors: list[FieldError] = []
        self._stored = stored
        self._total = 0
        self._costs: list[tuple[int, str]] = []

    def place(self, schema: Schema, path: str, times: int | None, loose: str, root: bool = False) -> None:
        """Checks the rules of a schema and of all below it. `times`: the maximum number of such values in an object, if
        bounded; `loose`: the path of the list above whose items cannot be matched between two versions of an
        object."""
        inner = _multiplied(schema, times)
        more, items = schema.get("additionalProperties"), schema.get("items")
        if isinstance(more, dict):
            self.place(more, f"{path}.additionalProperties", inner, loose)
        for name in sorted(schema.get("properties") or {}):
            self.place(schema["properties"][name], f"{path}.properties[{name}]", inner, loose)
        if isinstance(items, dict):
            keyed = schema.get("x-kubernetes-list-type") == "map"
            self.place(items, f"{path}.items", inner, loose or ("" if keyed else path))
        if schema.get(RULES):
            self._own(schema, path, times, loose, root)

    def _own(self, schema: Schema, path: str, times: int | None, loose: str, root: bool) -> None:
        of = declared(schema, root or bool(schema.get("x-kubernetes-embedded-resource")))
        if of is None:
            why = "failed to construct type information for x-kubernetes-validations rules: "
            why += "unable to convert structural schema to CEL declarations"
            self.errors.append(FieldError("InternalError", f"{path}.{RULES}", f"internal error: {why}"))
            return
        if times is None:
            times = LARGEST_REQUEST // (of.least_bytes + 1)
        for at, rule in enumerate(schema[RULES]):
            self._rule(CompiledRule(rule, of), of, times, f"{path}.{RULES}[{at}]", loose)

    def _rule(self, rule: CompiledRule, of: Declared, times: int, where: str, loose: str) -> None:
        cost = min(MOST, rule.program.estimate(of.size_of) * times) if rule.program is not None else 0
        self._observe(f"{where}.rule", "estimated rule cost", cost)
        if rule.error:
            self.errors.append(invalid(f"{where}.rule", _as_go(rule.rule), rule.error))
        if rule.message_error:
            self.errors.append(invalid(f"{where}.messageExpression", _as_go(rule.rule), rule.message_error))
        elif rule.message is not None:
            cost = rule.message.estimate(of.size_of)
            self._observe(f"{where}.messageExpression", "estimated messageExpression cost", cost)
        if rule.uses_old and loose:
            why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
            self.errors.append(invalid(f"{where}.rule", rule.rule["rule"], why))
        elif not rule.uses_old and rule.rule.get("optionalOldSelf") is not None:
            why = "may not be set if oldSelf is not used in rule"
            self.errors.append(invalid(f"{where}.optionalOldSelf", rule.rule["optionalOldSelf"], why))

    def _observe(self, where: str, what: str, cost: int) -> None:
        if cost > PER_RULE and not self._stored:
            self.errors.append(field_forbidden(where, _too_much(what, cost, PER_RULE)))
        self._total = min(MOST, self._total + cost)
        if cost >= PER_DEFINITION // 100:
            self._costs.append((cost, where))

    def total(self, path: str) -> list[FieldError]:
        if self._total <= PER_DEFINITION:
            return []
        largest = sorted(self._costs, key=lambda found: -found[0])[:_SHOWN]
        what = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        errors = [field_forbidden(where, _CONTRIBUTED) for _, where in largest]
        return [*errors, field_forbidden(path, _too_much(what, self._total, PER_DEFINITION))]


def _multiplied(schema: Schema, times: int | None) -> int | None:
    """The number of values one level below, given the number at this level."""
    most: int | None = 1
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    return None if times is None or most is None else min(MOST, times * max(0, most))


def _too_much(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def _as_go(rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with the field names of the Go struct, as shown in messages."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
