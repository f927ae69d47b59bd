"""The types of expressions, and what is wrong with one before it runs."""
