"""What is simulated for docs/dispatch.md: sets of runs, each a list of option words for `calm sim`.

The options of a set say all there is to say: the same options and seeds give the same lines on any machine.
"""

SEEDS = 10
TRAFFICS = ("fixed", "exponential", "bimodal", "heavy")
OWN = ("steal", "jsq", "jbsq1", "jbsq2", "hash", "affine")
PEERS = ("p2c", "prequal")
ALL = OWN + PEERS + ("least-work",)
GOOD = ("steal", "jsq", "jbsq1", "jbsq2") + PEERS
LOADS = "0.1,0.3,0.5,0.7,0.8,0.9,0.95"
BUSY = "0.5,0.7,0.8,0.9"
SLOW = "--slow 4:4"
TIGHT = "--blocks 16 --tight 4:4"
SCARCE = "--blocks 8"
BOUNDED = "--inbox 4"
INBOXES = (16, 8, 4)


def _each(policies, traffics, words):
    return [f"--policy {policy} --traffic {traffic} {words}" for traffic in traffics for policy in policies]


SETS = {
    "equal": _each(ALL, TRAFFICS, f"--load {LOADS} --tasks 80000"),
    "unequal": _each(ALL, TRAFFICS, f"--load {LOADS} --tasks 80000 {SLOW}"),
    "one-slow": _each(GOOD, ("exponential", "bimodal"), f"--load {BUSY} --tasks 80000 --slow 1:10"),
    "tight": _each(ALL, ("exponential", "bimodal"), f"--load {LOADS} --tasks 80000 {TIGHT}"),
    "scarce": _each(ALL, ("exponential", "bimodal"), f"--load {BUSY} --tasks 80000 {SCARCE}"),
    "bounded": _each(ALL, ("exponential", "bimodal"), f"--load {BUSY},0.95 --tasks 80000 {BOUNDED}"),
    "delay": [line for delay in (100, 300)
              for line in _each(GOOD, ("exponential",), f"--load {BUSY} --tasks 80000 --delay {delay}")],
    "delay-unequal": _each(GOOD, ("exponential",), f"--load {BUSY} --tasks 80000 --delay 100 {SLOW}"),
    "bursty": _each(GOOD, ("exponential",), f"--load {BUSY} --tasks 80000 --bursty"),
    "keys": [f"--policy hash --traffic exponential --load 0.5 --tasks 80000 --key-skew {skew}"
             for skew in ("0", "0.5", "1")],
    "scale": [f"--policy {policy} --cores {cores} --load 0.8 --tasks {max(80000, 400 * cores)}"
              for cores in (2, 4, 8, 64, 256) for policy in ("steal", "jsq", "jbsq1", "p2c")]
             + [f"--policy {policy} --cores 1024 --load 0.8 --tasks 409600" for policy in ("steal", "jsq", "p2c")],
    "drift": [f"--policy {policy} --load 0.7 --tasks 200000 {SLOW} --drift 40000"
              for policy in GOOD]
             + [f"--policy {policy} --load 0.7 --tasks 200000 {SLOW} --traffic exponential --then bimodal"
                for policy in GOOD],
}
# The default with inboxes as small as pools: what waits behind blocks that are short is refused instead.
for _inbox in INBOXES:
    SETS[f"tight-{_inbox}"] = _each(("steal",), ("exponential", "bimodal"),
                                    f"--load 0.7,0.8,0.9,0.95 --tasks 80000 {TIGHT} --inbox {_inbox}")
    SETS[f"scarce-{_inbox}"] = _each(("steal",), ("exponential", "bimodal"),
                                     f"--load 0.7,0.8,0.9 --tasks 80000 {SCARCE} --inbox {_inbox}")

# Once more with seeds that the day of the run chooses, so that no policy was made for them.
HELD_BACK = {
    "equal cores": "--load 0.5,0.8,0.95 --tasks 80000",
    "four slow cores": f"--load 0.5,0.7,0.8,0.9 --tasks 80000 {SLOW}",
    "four tight pools": f"--load 0.8,0.9,0.95 --tasks 80000 {TIGHT}",
    "delay of a tenth": "--load 0.5,0.8,0.9 --tasks 80000 --delay 100",
    "slow cores, delay of a tenth": f"--load 0.5,0.8,0.9 --tasks 80000 --delay 100 {SLOW}",
}

# By the clock, calm_exec_cost: cores, and how long after the last task's begin the next is submitted.
CLOCKED = (2, 8, 64, 256)
GAPS_NS = (20000, 1000000)
CLOCK_ROUNDS = 3
