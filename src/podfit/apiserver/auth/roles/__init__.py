"""RBAC: the rules, their evaluation, and the default roles."""
