"""Strategies of RBAC objects: roles and bindings. Their names may be anything that is valid in a path."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import label_selector, names_valid, selector_usable

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class _AccessStrategy(Strategy):
    has_generation = False
    has_status = False
    create_on_update = True

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.path_segment(name, prefix)


class RoleStrategy(_AccessStrategy):
    update_checks = "wc"

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        for at, rule in enumerate(obj.get("rules") or ()):
            self._rule(rule, f"rules[{at}]", errors)
        if (aggregation := obj.get("aggregationRule")) is not None:
            path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or ()
            if not selectors:
                detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                errors.append(required(path, detail))
            for at, selector in enumerate(selectors):
                label_selector(selector, f"{path}[{at}]", errors)
                if not selector_usable(selector):
                    # The message contains the selector that Kubernetes failed to construct.
                    errors.append(invalid(f"{path}[{at}]", None, "invalid label selector."))
        return errors

    def _rule(self, rule: Object, path: str, errors: Errors) -> None:
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        urls = rule.get("nonResourceURLs")
        if urls:
            if self.kind.namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            return
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


class BindingStrategy(_AccessStrategy):
    """The strategy of RoleBindings and ClusterRoleBindings."""

    update_checks = "wc"

    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        reference = obj.get("roleRef") or {}
        if reference.get("apiGroup") != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (_GROUP,)))
        allowed = ("Role", "ClusterRole") if self.kind.namespaced else ("ClusterRole",)
        if reference.get("kind") not in allowed:
            errors.append(not_supported("roleRef.kind", reference.get("kind", ""), allowed))
        name = reference.get("name", "")
        if not name:
            errors.append(required("roleRef.name"))
        else:
            names_valid(name, "roleRef.name", names.path_segment(name), errors)
        for at, subject in enumerate(obj.get("subjects") or ()):
            self._subject(subject, f"subjects[{at}]", errors)
        return errors

    def _subject(self, subject: Object, path: str, errors: Errors) -> None:
        kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
        if not name:
            errors.append(required(f"{path}.name"))
        if kind == "ServiceAccount":
            if name:
                names_valid(name, f"{path}.name", names.dns_subdomain(name), errors)
            if group:
                errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
            if not self.kind.namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        elif kind in ("User", "Group"):
            if group != _GROUP:
                errors.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
        else:
            errors.append(not_supported(f"{path}.kind", kind, _SUBJECTS))

    def validate_change(self, new: Object, old: Object) -> Errors:
        if new.get("roleRef") == old.get("roleRef"):
            return []
        reference = new.get("roleRef") or {}
        shown = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        return [invalid("roleRef", shown, "cannot change roleRef")]
