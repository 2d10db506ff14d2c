"""Benchmarks: turnlog beside plain sqlite3 and its peers, as ratios of one run (docs/performance.md)."""
