"""Container runtimes: one protocol (`base`), several implementations."""
