"""The cost of expressions, estimated before they run and counted while they do."""
