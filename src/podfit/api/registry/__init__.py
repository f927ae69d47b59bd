"""The table of kinds: built-in rows, and rows for custom resources."""
