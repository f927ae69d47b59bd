"""Validation rules in CEL (`x-kubernetes-validations`): evaluates them for an object.

All rules of an object share one budget, as in Kubernetes. `rule_checks` validates rules and their cost at registration.
"""

from __future__ import annotations

from typing import Any

from podfit.api.cel.cost.budget import NEVER_YIELD, Budget, Interrupted, YieldPolicy
from podfit.api.cel.evaluation.program import Environment, Program
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import BOOL, STRING, optional_of
from podfit.api.cel.values import NONE, Failed, Maybe, Stopped
from podfit.api.schema.celrules.rule_places import RULES, has_rules
from podfit.api.schema.celrules.rule_types import Declared, declared, unescaped
from podfit.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, FieldError, invalid
from podfit.api.text.goprint import go_value

Schema = dict[str, Any]
_LONGEST_MESSAGE = 5 * 1024
_LONG = 1000
"""The length from which compiling an expression takes more than a few milliseconds."""
_REASONS = {"FieldValueRequired": REQUIRED, "FieldValueForbidden": FORBIDDEN, "FieldValueDuplicate": DUPLICATE}
_NO_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_NO_MESSAGE_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)


class CompiledRule:
    """A rule with its programs, or with its compile errors."""

    def __init__(self, rule: dict[str, Any], of: Declared) -> None:
        self.rule, self.error, self.message_error = rule, "", ""
        self.program: Program | None = None
        self.message: Program | None = None
        self.uses_old = False
        self.optional_old = bool(rule.get("optionalOldSelf"))
        old = optional_of(of.type) if self.optional_old else of.type
        environment = Environment({"self": of.type, "oldSelf": old}, unescaped)
        try:
            program = environment.compile(rule.get("rule") or "")
        except BadExpression as error:
            self.error = str(error)
            return
        if program.type != BOOL:
            self.error = "cel expression must evaluate to a bool"
            return
        self.program, self.uses_old = program, program.uses("oldSelf")
        if rule.get("messageExpression"):
            self._compile_message(environment, rule["messageExpression"])

    def _compile_message(self, environment: Environment, text: str) -> None:
        try:
            message = environment.compile(text)
        except BadExpression as error:
            self.message_error = f"messageExpression {error}"
            return
        if message.type != STRING:
            self.message_error = "messageExpression must evaluate to a string"
            return
        self.message = message

    @property
    def shown(self) -> str:
        return str(self.rule.get("message") or self.rule.get("rule") or "").strip()


class RuleTree:
    """The rules of a schema and of all below it."""

    def __init__(self, schema: Schema, of: Declared | None, yielding: YieldPolicy) -> None:
        self._type = schema.get("type") or ""
        self._declared = of
        self._rules: list[CompiledRule] = []
        for rule in schema.get(RULES) or ():
            if of is None:
                break
            if len(rule.get("rule") or "") + len(rule.get("messageExpression") or "") > _LONG:
                yielding.heavy()
            self._rules.append(CompiledRule(rule, of))
            yielding.step()
        self._keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self._keyed = schema.get("x-kubernetes-list-type") == "map"
        self._properties = {
            name: tree
            for name, below in (schema.get("properties") or {}).items()
            if (tree := rule_tree(below, yielding)) is not None
        }
        self._items = rule_tree(schema.get("items"), yielding)
        self._more = rule_tree(schema.get("additionalProperties"), yielding)

    def errors(
        self, value: Any, old: Any, yielding: YieldPolicy = NEVER_YIELD, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """Violations. Those of values that have not changed are added to the warnings instead."""
        run = _Run(Budget(yielding=yielding))
        run.visit(self, value, old, "", False)
        if warnings is not None:
            warnings += map(str, run.excused)
        return run.errors


def rule_tree(schema: Any, yielding: YieldPolicy = NEVER_YIELD, root: bool = False) -> RuleTree | None:
    """The rules of a schema; None if neither the schema nor any below it has rules."""
    if not has_rules(schema):
        return None
    own = bool(schema.get(RULES))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    return RuleTree(schema, declared(schema, root or embedded) if own else None, yielding)


class _Run:
    """The validation of one object."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._over = False
        self.errors: list[FieldError] = []
        self.excused: list[FieldError] = []

    def visit(self, tree: RuleTree, value: Any, old: Any, path: str, unchanged: bool) -> None:
        """Evaluates the rules for a value. If it, or a value that contains it, is `unchanged`, violations are
        excused."""
        if value is None or self._over:
            return
        unchanged = unchanged or (old is not None and old == value)
        if tree._rules:
            self._own(tree, value, old, path, unchanged)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name in sorted(value) if tree._more is not None else sorted(tree._properties):
                below = tree._properties.get(name) or tree._more
                if below is not None and name in value:
                    named = f"{path}.{name}" if path else name
                    where = named if name in tree._properties else f"{path}[{name}]"
                    self.visit(below, value[name], before.get(name), where, unchanged)
        elif isinstance(value, list) and tree._items is not None:
            known = _by_keys(old, tree)
            for index, item in enumerate(value):
                former = known.get(_key_of(item, tree)) if known else None
                self.visit(tree._items, item, former, f"{path}[{index}]", unchanged)

    def _own(self, tree: RuleTree, value: Any, old: Any, path: str, unchanged: bool) -> None:
        of = tree._declared
        assert of is not None
        self._path, self._type, self._value = path or "<nil>", tree._type, value
        if self._budget.left <= 0:
            self._end(_NO_BUDGET)
            return
        values: dict[str, Any] = {"self": of.value(value)}
        previous = of.value(old) if old is not None and any(rule.uses_old for rule in tree._rules) else None
        for rule in tree._rules:
            if rule.error:
                self._add(f"rule compile error: {rule.error}")
                continue
            if rule.uses_old and old is None and not rule.optional_old:
                continue
            values["oldSelf"] = previous
            if rule.optional_old:
                values["oldSelf"] = NONE if old is None else Maybe(previous)
            self._evaluate(rule, values, unchanged and not rule.uses_old)
            if self._over:
                return

    def _evaluate(self, rule: CompiledRule, values: dict[str, Any], excused: bool) -> None:
        assert rule.program is not None
        failure: Exception | None = None
        result: Any = None
        try:
            result = rule.program.run(values, self._budget)
        except (Failed, Stopped) as error:
            failure = error
        if self._budget.left < 0:
            self._end(_NO_BUDGET)
        elif failure is not None:
            self._failed(failure, rule)
        elif result is not True:
            self._broken(rule, values, excused)

    def _failed(self, failure: Exception, rule: CompiledRule) -> None:
        why = str(failure)
        if why.startswith("no such overload"):
            reason = "call arguments did not match a supported operator, function or macro signature for rule"
            self._add(f"'{why}': {reason}: {rule.shown}")
        elif isinstance(failure, Interrupted):
            self._end(f"{why} evaluating rule: {rule.shown}")
        elif isinstance(failure, Stopped):
            reason = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._end(f"'{why}': {reason}: {rule.shown}")
        else:
            self._add(f"{why} evaluating rule: {rule.shown}")

    def _add(self, detail: str) -> None:
        self.errors.append(invalid(self._path, self._type, detail))

    def _end(self, detail: str) -> None:
        self._add(detail)
        self._over = True

    def _broken(self, rule: CompiledRule, values: dict[str, Any], excused: bool) -> None:
        detail = self._message(rule, values) if rule.message is not None else ""
        if self._over:
            return
        where = self._path
        if rule.rule.get("fieldPath"):
            field = rule.rule["fieldPath"]
            where = field.lstrip(".") if where == "<nil>" else f"{where}{field}"
        shown = None if self._type in ("object", "array") else go_value(self._value)
        kind = _REASONS.get(rule.rule.get("reason") or "", INVALID)
        if not detail:
            message = str(rule.rule.get("message") or "").strip()
            detail = message or f"failed rule: {rule.shown}"
        if kind == DUPLICATE:
            detail = ""
        found = FieldError(kind, where, detail, shown if kind in (INVALID, DUPLICATE) else None)
        (self.excused if excused else self.errors).append(found)

    def _message(self, rule: CompiledRule, values: dict[str, Any]) -> str:
        """The text of a message expression; none if it is not a valid message."""
        assert rule.message is not None
        try:
            made = rule.message.run(values, self._budget)
        except Failed:
            made = ""
        except Stopped:
            reason = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            self._end(f"{reason}: {go_value(rule.rule['messageExpression'])}")
            return ""
        if self._budget.left < 0:
            self._end(_NO_MESSAGE_BUDGET)
            return ""
        text = made.strip() if isinstance(made, str) else ""
        return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text


def _by_keys(old: Any, tree: RuleTree) -> dict[str, Any]:
    """The items of the old list, if its type identifies items."""
    if not tree._keyed or not isinstance(old, list):
        return {}
    return {_key_of(item, tree): item for item in old}


def _key_of(item: Any, tree: RuleTree) -> str:
    return repr([item.get(key) for key in tree._keys]) if isinstance(item, dict) else ""
