"""What is simulated for docs/dispatch.md: sets of runs, each a list of option words for `calm sim`.

The options of a set say all there is to say: the same options and seeds give the same lines on any machine.
"""

SEEDS = 10
TRAFFICS = ("fixed", "exponential", "bimodal", "heavy")
FIXED = ("hash", "rr", "random", "p2c", "p2c-occupancy", "jsq", "jiq", "jbsq1", "jbsq2", "jbsq3", "jbsq4", "prequal",
         "steal")
ALL = FIXED + ("least-work", "learned")
GOOD = ("p2c", "jsq", "jiq", "jbsq1", "jbsq2", "least-work", "prequal", "steal", "learned")
LOADS = "0.1,0.3,0.5,0.7,0.8,0.9,0.95"
BUSY = "0.5,0.7,0.8,0.9"
SLOW = "--slow 4:4"
TIGHT = "--blocks 16 --tight 4:4"
SCARCE = "--blocks 8"
BOUNDED = "--inbox 4"


def _each(policies, traffics, words):
    return [f"--policy {policy} --traffic {traffic} {words}" for traffic in traffics for policy in policies]


SETS = {
    "equal": _each(ALL, TRAFFICS, f"--load {LOADS} --tasks 80000"),
    "unequal": _each(ALL, TRAFFICS, f"--load {LOADS} --tasks 80000 {SLOW}"),
    "one-slow": _each(GOOD, ("exponential", "bimodal"), f"--load {BUSY} --tasks 80000 --slow 1:10"),
    "tight": _each(ALL, ("exponential", "bimodal"), f"--load {LOADS} --tasks 80000 {TIGHT}"),
    "scarce": _each(ALL, ("exponential", "bimodal"), f"--load {BUSY} --tasks 80000 {SCARCE}"),
    # Seeds that nobody saw when the learned policy was made.
    "tight-again": _each(("steal", "learned"), ("exponential", "bimodal"),
                         f"--load 0.7,0.8,0.9,0.95 --tasks 80000 {TIGHT} --seed 101"),
    "scarce-again": _each(("steal", "learned"), ("exponential", "bimodal"),
                          f"--load 0.7,0.8,0.9 --tasks 80000 {SCARCE} --seed 101"),
    "bounded": _each(ALL, ("exponential", "bimodal"), f"--load {BUSY},0.95 --tasks 80000 {BOUNDED}"),
    "sizes": _each(("learned",), ("bimodal", "heavy"), f"--load {BUSY} --tasks 80000 --hint coarse"),
    "delay": [line for delay in (100, 300)
              for line in _each(GOOD, ("exponential",), f"--load {BUSY} --tasks 80000 --delay {delay}")],
    "bursty": _each(GOOD, ("exponential",), f"--load {BUSY} --tasks 80000 --bursty"),
    "keys": [f"--policy hash --traffic exponential --load 0.5 --tasks 80000 --key-skew {skew}"
             for skew in ("0", "0.5", "1")],
    "scale": [f"--policy {policy} --cores {cores} --load 0.8 --tasks {max(80000, 400 * cores)}"
              for cores in (2, 4, 8, 64, 256) for policy in ("p2c", "jsq", "jiq", "jbsq1", "steal", "learned")]
             + [f"--policy {policy} --cores 1024 --load 0.8 --tasks 409600"
                for policy in ("p2c", "jsq", "steal", "learned")],
    "drift": [f"--policy {policy} --load 0.7 --tasks 200000 {SLOW} --drift 40000"
              for policy in GOOD]
             + [f"--policy {policy} --load 0.7 --tasks 200000 {SLOW} --traffic exponential --then bimodal"
                for policy in GOOD],
    "counterfactual": [f"--policy {policy} --load {load} --tasks 80000 {words} --counterfactual"
                       for words in (SLOW, TIGHT) for load in ("0.7", "0.9")
                       for policy in ("rr", "p2c", "jsq", "prequal", "steal")],
}

# Trained on one traffic, judged on another: learned weights alone, neither learning nor falling back.
TRAIN = "--policy learned --load 0.7 --tasks 400000 --seed 1000 --seeds 1 " + SLOW
JUDGE = "--policy learned --load 0.7 --tasks 80000 --frozen --arm learned " + SLOW

# By the clock, calm_exec_cost: cores, and how long after the last task's begin the next is submitted.
CLOCKED = (2, 8, 64, 256)
GAPS_NS = (20000, 1000000)
CLOCK_ROUNDS = 3
