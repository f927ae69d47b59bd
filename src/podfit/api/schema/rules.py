"""Validation rules in CEL (`x-kubernetes-validations`), as far as the CEL library at hand understands them.

A rule that cannot be compiled or evaluated (Kubernetes' own function library is larger) counts as kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from podfit.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, FieldError

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
        before = old if isinstance(old, dict) else {}
        for name in sorted(value):
            below = properties.get(name, more)
            if isinstance(below, dict):
                errors += rule_errors(value[name], before.get(name), below, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            errors += rule_errors(item, None, schema.get("items") or {}, f"{path}[{index}]")
    return errors


@lru_cache(maxsize=512)
def _program(rule: str) -> Any:
    try:
        # Imported where it is used: the library brings a terminal along, and most servers never meet a rule.
        import cel

        return cel.compile(rule)
    except Exception:
        return None


_OLD = re.compile(r"\boldSelf\b")


def _broken(rule: dict[str, Any], value: Any, old: Any, path: str) -> FieldError | None:
    text = rule.get("rule", "")
    transition = bool(_OLD.search(text))
    if transition and old is None and not rule.get("optionalOldSelf"):
        return None
    program = _program(text)
    if program is None:
        return None
    variables = {"self": _escaped(value)}
    if transition:
        variables["oldSelf"] = _escaped(old)
    try:
        kept = program.execute(variables)
    except Exception:
        return None
    if kept is not False:
        return None
    where = path or "<nil>"
    if rule.get("fieldPath"):
        where = f"{path}{rule['fieldPath']}" if path else rule["fieldPath"].lstrip(".")
    return FieldError(_REASONS.get(rule.get("reason") or "", INVALID), where, _message(rule, variables))


def _message(rule: dict[str, Any], variables: dict[str, Any]) -> str:
    program = _program(rule["messageExpression"]) if rule.get("messageExpression") else None
    if program is not None:
        try:
            return str(program.execute(variables))
        except Exception:
            pass
    return str(rule.get("message") or f"failed rule: {rule.get('rule', '').strip()}")


def _escaped(value: Any) -> Any:
    """Field names as CEL identifiers, in Kubernetes' escaping."""
    if isinstance(value, dict):
        return {_identifier(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def _identifier(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    name = name.replace("__", "__underscores__")
    return name.replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")
