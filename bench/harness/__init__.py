"""The parts of the benchmark runner. `./calm bench` is the command, `calm_bench.py` beside this folder its module."""
