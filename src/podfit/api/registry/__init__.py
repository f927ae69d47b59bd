"""The table of kinds: built-in rows, and the rows that custom resources add."""
