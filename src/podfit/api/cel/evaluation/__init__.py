"""Compiles checked expressions to programs, and evaluates them."""
