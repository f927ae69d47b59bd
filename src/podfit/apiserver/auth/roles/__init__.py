"""RBAC: the rules, how they are evaluated, and the roles that every cluster has."""
