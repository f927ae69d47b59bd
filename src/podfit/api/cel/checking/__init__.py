"""The type checker of CEL expressions: finds their types, and errors before they run."""
