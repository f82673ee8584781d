"""The parts of the benchmark runner. `calm_bench.py` beside this folder is the command."""
