"""The API groups of a server: built-in, custom and aggregated, and their versions."""
