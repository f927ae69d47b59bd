"""Finds CEL rules in a schema. Compiling them needs far more code than checking that there are none."""

from __future__ import annotations

from typing import Any

RULES = "x-kubernetes-validations"


def has_rules(schema: Any) -> bool:
    """Whether the schema, or any below it, has rules."""
    if not isinstance(schema, dict):
        return False
    if schema.get(RULES):
        return True
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_rules(item) for item in below)


def rule_text(schema: Any) -> int:
    """The total length of all rules in the schema."""
    if not isinstance(schema, dict):
        return 0
    own = sum(
        len(str(rule.get("rule") or "")) + len(str(rule.get("messageExpression") or ""))
        for rule in schema.get(RULES) or ()
        if isinstance(rule, dict)
    )
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return own + sum(rule_text(item) for item in below)
