"""Side-by-side measurements, never part of the tests: `python -m benchmarks.NAME [--quick]`."""
