"""The type checker: types of expressions, and errors found before they run."""
