"""Benchmarks: ratios and times, never assertions. `make bench` prints the tables of docs/performance.md."""
