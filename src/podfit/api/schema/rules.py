"""Validation rules in CEL (`x-kubernetes-validations`).

A definition with a rule that cannot be compiled is refused; one that was stored nevertheless counts as kept.
"""

from __future__ import annotations

import re
from typing import Any

from podfit.api.cel import BadExpression, Failed, compiled, problem
from podfit.api.remember import remembered
from podfit.api.schema.measures import go_value
from podfit.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, FieldError, invalid

Schema = dict[str, Any]
RULES = "x-kubernetes-validations"
_REASONS = {"FieldValueRequired": REQUIRED, "FieldValueForbidden": FORBIDDEN, "FieldValueDuplicate": DUPLICATE}
_KEYWORDS = {
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
}


def has_rules(schema: Any) -> bool:
    """Whether the schema, or any below it, has rules."""
    if not isinstance(schema, dict):
        return False
    if schema.get(RULES):
        return True
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_rules(item) for item in below)


def rule_errors(value: Any, old: Any, schema: Schema, path: str) -> list[FieldError]:
    errors = [error for rule in schema.get(RULES) or () if (error := _broken(rule, value, old, path)) is not None]
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        before = old if isinstance(old, dict) and schema.get("x-kubernetes-map-type") != "atomic" else {}
        for name in sorted(value):
            below = properties.get(name, more)
            if isinstance(below, dict):
                where = (f"{path}.{name}" if path else name) if name in properties else f"{path}[{name}]"
                errors += rule_errors(value[name], before.get(name), below, where)
    elif isinstance(value, list):
        known = _by_keys(old, schema)
        for index, item in enumerate(value):
            former = known.get(_keys_of(item, schema)) if known else None
            errors += rule_errors(item, former, schema.get("items") or {}, f"{path}[{index}]")
    return errors


def _by_keys(old: Any, schema: Schema) -> dict[str, Any]:
    """The items a list had, if it says which item is which."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_keys_of(item, schema): item for item in old}


def _keys_of(item: Any, schema: Schema) -> str:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    return repr([item.get(key) for key in keys]) if isinstance(item, dict) else ""


_OLD = re.compile(r"\boldSelf\b")
VARIABLES = frozenset(("self", "oldSelf"))


def _broken(rule: dict[str, Any], value: Any, old: Any, path: str) -> FieldError | None:
    text = rule.get("rule", "")
    transition = bool(_OLD.search(text))
    if transition and old is None and not rule.get("optionalOldSelf"):
        return None
    variables = {"self": _escaped(value)}
    if transition:
        variables["oldSelf"] = _escaped(old)
    where, kind = path or "<nil>", INVALID
    try:
        if compiled(text).evaluate(variables) is not False:
            return None
    except BadExpression:
        return None
    except Failed as error:
        return FieldError(kind, where, _unevaluated(str(error), str(rule.get("message") or text).strip()))
    if rule.get("fieldPath"):
        where = f"{path}{rule['fieldPath']}" if path else rule["fieldPath"].lstrip(".")
    kind = _REASONS.get(rule.get("reason") or "", kind)
    shown = go_value(value) if kind == INVALID and not isinstance(value, (dict, list)) else None
    return FieldError(kind, where, _message(rule, variables), shown)


def _unevaluated(why: str, rule: str) -> str:
    if why.startswith("no such overload"):
        told = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{why}': {told}: {rule}"
    return f"{why} evaluating rule: {rule}"


def rule_problems(schema: Schema, path: str) -> list[FieldError]:
    """Rules of a definition that cannot be compiled."""
    errors: list[FieldError] = []
    for at, rule in enumerate(schema.get(RULES) or ()):
        where = f"{path}.{RULES}[{at}]"
        if told := problem(rule["rule"], VARIABLES):
            errors.append(invalid(f"{where}.rule", _as_go(rule), told))
        elif rule.get("messageExpression") and (told := problem(rule["messageExpression"], VARIABLES)):
            errors.append(invalid(f"{where}.messageExpression", _as_go(rule), f"messageExpression {told}"))
    for name in sorted(schema.get("properties") or {}):
        errors += rule_problems(schema["properties"][name], f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            errors += rule_problems(schema[word], f"{path}.{word}")
    return errors


def _as_go(rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with the names of the Go struct, which is how messages show it."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _message(rule: dict[str, Any], variables: dict[str, Any]) -> str:
    if rule.get("messageExpression"):
        try:
            made = compiled(rule["messageExpression"]).evaluate(variables)
        except (BadExpression, Failed):
            made = None
        if isinstance(made, str) and made.strip():
            return made
    return str(rule.get("message") or f"failed rule: {rule.get('rule', '').strip()}")


def _escaped(value: Any) -> Any:
    """Field names as CEL identifiers, in Kubernetes' escaping."""
    if isinstance(value, dict):
        return {_identifier(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


@remembered(4096)
def _identifier(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    name = name.replace("__", "__underscores__")
    return name.replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")
