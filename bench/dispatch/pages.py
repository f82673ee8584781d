"""Tables and plots from the lines that study.py keeps: all of them, and the deciding ones in docs/dispatch-figures.md.

Every figure is a mean over seeds with the half-width of its 95 % interval (Student). Ratios are of the same seeds, so
of the same tasks. Times are in mean service times.
"""
import math
import statistics
import sys
from pathlib import Path

from harness import report_plots as plots

import sets

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "dispatch-figures.md"
IMAGES = ROOT / "docs" / "images"
STUDENT = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
SERVICE_NS = 1000
TARGET = 10  # service times, or own times: the 99th percentile that throughput is given for
SHOWN_LOADS = (0.5, 0.8, 0.95)
PERCENTILES = ("p50", "p90", "p99", "p999", "p9999")
TITLES = {"p50": "P50", "p90": "P90", "p99": "P99", "p999": "P99.9", "p9999": "P99.99"}
SHOWN = ("steal", "jsq", "jbsq1", "jbsq2", "p2c", "prequal")


def interval(values):
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, STUDENT.get(len(values), 1.96) * statistics.stdev(values) / math.sqrt(len(values))


def number(value):
    if value == 0:
        return "0"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def cell(values):
    mean, reach = interval(values)
    return f"{number(mean)} ±{number(reach)}" if reach >= 0.0005 * abs(mean) else number(mean)


def percent(values):
    mean, reach = interval(values)
    digits = 3 if mean < 0.001 else 2 if mean < 0.1 else 1
    return f"{100 * mean:.{digits}f} % ±{100 * reach:.{digits}f}" if mean else "0"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def p99(result):
    return result["sojourn"]["p99"] / SERVICE_NS


class Lines:
    """Results by what was asked for."""

    def __init__(self, results):
        self.results = {}
        for result in results:
            for policy in (result.get("policy"), None):
                self.results.setdefault((result["set"], policy), []).append(result)

    def of(self, name, **wanted):
        """Results by seed, of one set."""
        found = [result for result in self.results.get((name, wanted.get("policy")), ())
                 if all(result.get(key) == value for key, value in wanted.items())]
        return sorted(found, key=lambda result: result.get("seed", 0))

    def values(self, figure, name, **wanted):
        return [figure(result) for result in self.of(name, **wanted)]

    def seen(self, name, key, **wanted):
        return list(dict.fromkeys(result.get(key) for result in self.of(name, **wanted)))

    def ratios(self, figure, one, other):
        """Of two lists of the same seeds."""
        return [figure(a) / figure(b) for a, b in zip(one, other) if figure(b) > 0]


def by_load(lines, name, figure, show, note="", **wanted):
    """A table for each traffic: policies down, loads across."""
    out = []
    for traffic in lines.seen(name, "traffic", **wanted):
        more = dict(wanted, traffic=traffic)
        loads = lines.seen(name, "load", **more)
        rows = []
        for policy in lines.seen(name, "policy", **more):
            cells = [lines.values(figure, name, policy=policy, load=load, **more) for load in loads]
            rows.append([policy] + [show(values) if values else "" for values in cells])
        out += [f"{traffic}{note}", ""] + table(["policy"] + [f"load {load:g}" for load in loads], rows)
    return out


def equal(lines):
    out = ["## Equal cores", "", "16 cores. P99 of time in the system, in service times.", ""]
    out += by_load(lines, "equal", p99, cell)
    out += ["P50 to P99.99, and slow-down (time in the system over the task's own time).", ""]
    head = ["policy"] + [TITLES[share] for share in PERCENTILES] + ["slow-down P50", "P99", "P99.9"]
    for traffic in sets.TRAFFICS:
        for load in SHOWN_LOADS:
            rows = []
            for policy in sets.ALL:
                found = lines.of("equal", policy=policy, traffic=traffic, load=load)
                cells = [cell([result["sojourn"][share] / SERVICE_NS for result in found]) for share in PERCENTILES]
                cells += [cell([result["slowdown"][share] for result in found]) for share in ("p50", "p99", "p999")]
                rows.append([policy] + cells)
            out += [f"{traffic}, load {load:g}", ""] + table(head, rows)
    return out


def bound(lines):
    """The default against one shared queue."""
    out = ["## The default against one shared queue", "",
           "Equal cores. Ratios of P99, the same seeds; jbsq1 without delay is one shared queue.", ""]
    for one, other in (("steal", "jbsq1"),):
        loads = lines.seen("equal", "load")
        rows = []
        for traffic in sets.TRAFFICS:
            row = [traffic]
            for load in loads:
                a, b = (lines.of("equal", policy=policy, traffic=traffic, load=load) for policy in (one, other))
                mean, reach = interval(lines.ratios(p99, a, b))
                row.append(f"{mean:.3f}±{reach:.3f}")
            rows.append(row)
        out += [f"{one} over {other}", ""] + table(["traffic"] + [f"load {load:g}" for load in loads], rows)
    return out


def reached(points):
    """The load at which P99 reaches the target, between two loads on a logarithmic scale; None: not below 0.95."""
    if points[0][1] > TARGET:
        return 0.0
    for (low, low_p99), (high, high_p99) in zip(points, points[1:]):
        if high_p99 > TARGET:
            return low + (high - low) * math.log(TARGET / low_p99) / math.log(high_p99 / low_p99)
    return None


def throughput(lines):
    out = ["## Throughput at a P99 of ten service times", "",
           "Equal cores; the load, of what 16 cores can do, at which P99 reaches ten service times, between measured"
           " loads on a logarithmic scale. With bimodal and heavy service times a task alone may exceed it.", ""]
    out += throughput_of(lines, p99)
    out += ["The same for a P99 of the slow-down: ten times the task's own time, which no task alone exceeds.", ""]
    return out + throughput_of(lines, lambda result: result["slowdown"]["p99"])


def throughput_of(lines, figure):
    rows = []
    for policy in sets.ALL:
        row = [policy]
        for traffic in sets.TRAFFICS:
            loads = lines.seen("equal", "load")
            means = [interval(lines.values(figure, "equal", policy=policy, traffic=traffic, load=load))[0]
                     for load in loads]
            found = reached(list(zip(loads, means)))
            row.append("above 0.95" if found is None else "below 0.1" if found == 0 else f"{found:.2f}")
        rows.append(row)
    return table(["policy"] + list(sets.TRAFFICS), rows)


def best_other(lines, name, figure, **wanted):
    """Name and mean of the policy whose mean is least, but for the default and the oracle."""
    means = {policy: interval(lines.values(figure, name, policy=policy, **wanted))[0]
             for policy in lines.seen(name, "policy", **wanted) if policy not in ("steal", "least-work")}
    best = min(means, key=means.get)
    return best, means[best]


def against_best(lines, name, **wanted):
    out = ["The default, steal, over the best of the others at that point, ratios of P99:", ""]
    rows = []
    for traffic in lines.seen(name, "traffic", **wanted):
        for load in lines.seen(name, "load", **wanted):
            more = dict(wanted, traffic=traffic, load=load)
            best, _ = best_other(lines, name, p99, **more)
            mean, reach = interval(lines.ratios(p99, lines.of(name, policy="steal", **more),
                                                lines.of(name, policy=best, **more)))
            rows.append([traffic, f"{load:g}", best, f"{mean:.2f} ±{reach:.2f}"])
    return out + table(["traffic", "load", "best other", "steal over it"], rows)


def unequal(lines):
    out = ["## Unequal cores", "", "Four of 16 cores take four times as long. P99.", ""]
    out += by_load(lines, "unequal", p99, cell) + against_best(lines, "unequal")
    out += ["One of 16 cores takes ten times as long. P99.", ""]
    return out + by_load(lines, "one-slow", p99, cell) + against_best(lines, "one-slow")


def must_fail(load, cores=16, blocks=208, classes=4, hold=20, long_share=0.005, times=500):
    """The least share of tasks that find no block, bimodal times, whatever the policy, if it knows no sizes.

    A core that runs a long task takes no block, and its own come back meanwhile. Of B blocks of a class a core takes at
    most B at once after each long task, and B in each time that a block is away; that is compared with what is wanted.
    """
    short = 1 / (1 - long_share + long_share * times)
    away, length = hold + short, short * times
    weights = [1 / (rank + 1) for rank in range(classes)]
    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        on_long = load * (1 - share) * long_share * length  # of each core's time
        most = blocks / away * (1 - on_long * (1 - away / length))
        taken = sum(min(weight / sum(weights) * load * cores, most) for weight in weights)
        low, high = (share, high) if 1 - taken / (load * cores) > share else (low, share)
    return low


def tight(lines):
    out = ["## Tight pools", "",
           "16 blocks of each of 4 classes on each core, 4 on four of them; a block is kept for 20 service times after"
           " its task, half of them are freed remotely; classes by Zipf's law. NULL share: tasks that found no block"
           " when they began.", ""]
    out += by_load(lines, "tight", lambda result: result["null_share"], percent, ": NULL share")
    if any(lines.values(lambda result: result["rejected_share"], "tight")):
        out += by_load(lines, "tight", lambda result: result["rejected_share"], percent, ": rejected share")
    else:
        out += ["No policy rejected a task: some core always had a block.", ""]
    loads = lines.seen("tight", "load")
    out += ["bimodal: what must fail, whatever the policy, if it knows no sizes and nobody waits without end"
            " (`must_fail()` in `bench/dispatch/pages.py`)", ""]
    out += table(["load"] + [f"{load:g}" for load in loads],
                 [["at least"] + [f"{100 * must_fail(load):.1f} %" for load in loads]])
    out += by_load(lines, "tight", lambda result: result["stranded"], percent,
                   ": stranded, the share of NULLs and rejections while another core had a free block of the class")
    return out + by_load(lines, "tight", p99, cell, ": P99")


def small(lines):
    """The default with inboxes as small as the pools, against the default with large ones."""
    out = ["## Inboxes as small as pools", "",
           "The default, `steal`, in the tight and the scarce pools above, with inboxes of 16, 8 and 4 tasks: NULL"
           " share, lost (no block, or refused), and P99 over that with inboxes of 1024.", ""]
    rows = []
    for name in ("tight", "scarce"):
        for traffic in ("exponential", "bimodal"):
            for load in lines.seen(f"{name}-4", "load"):
                wide = lines.of(name, policy="steal", traffic=traffic, load=load)
                row = [name, traffic, f"{load:g}", percent([result["null_share"] for result in wide]),
                       percent([lost(result) for result in wide])]
                for inbox in sets.INBOXES:
                    found = lines.of(f"{name}-{inbox}", traffic=traffic, load=load)
                    mean, reach = interval(lines.ratios(p99, found, wide))
                    row += [percent([result["null_share"] for result in found]),
                            percent([lost(result) for result in found]), f"{mean:.2f} ±{reach:.2f}"]
                rows.append(row)
    head = ["pools", "traffic", "load", "1024: NULL", "lost"]
    for inbox in sets.INBOXES:
        head += [f"{inbox}: NULL", "lost", "P99, ratio"]
    return out + table(head, rows)


def held_back(lines):
    """The default against the best of the others, on seeds of the day of the run."""
    seeds = lines.seen("held-back", "seed")
    out = ["## Seeds that nobody saw", "",
           f"Seeds {min(seeds)} to {max(seeds)}: the day of the run chose them. The default, `steal`, over the best of"
           " the others at that point; lost: no block, or refused.", ""]
    rows = []
    for setting in lines.seen("held-back", "setting"):
        for traffic in lines.seen("held-back", "traffic", setting=setting):
            for load in lines.seen("held-back", "load", setting=setting, traffic=traffic):
                more = {"setting": setting, "traffic": traffic, "load": load}
                best, _ = best_other(lines, "held-back", p99, **more)
                one, other = (lines.of("held-back", policy=policy, **more) for policy in ("steal", best))
                mean, reach = interval(lines.ratios(p99, one, other))
                rows.append([setting, traffic, f"{load:g}", best, f"{mean:.2f} ±{reach:.2f}"]
                            + [" for ".join(percent([lost(result) for result in found]) for found in (one, other))])
    return out + table(["cores", "traffic", "load", "best other", "P99, ratio", "lost"], rows)


def lost(result):
    return result["null_share"] + result["rejected_share"]


def refused(lines):
    """Where tasks are refused: pools that are too small on every core, and inboxes of four."""
    out = ["## Scarce pools", "", "8 blocks of each of 4 classes on each core, kept and freed as above: less than the"
           " load needs.", ""]
    for title, figure in (("NULL share", "null_share"), ("rejected share", "rejected_share"),
                          ("stranded, as above", "stranded"),
                          ("blocks of the class that were free then, of all there are", "stranded_blocks")):
        out += by_load(lines, "scarce", lambda result, key=figure: result[key], percent, ": " + title)
    out += by_load(lines, "scarce", p99, cell, ": P99")
    out += ["## Full inboxes", "", "Four tasks in flight on a core, and the dispatcher rejects. Policies that hold"
            " tasks back reject none.", ""]
    out += by_load(lines, "bounded", lambda result: result["rejected_share"], percent, ": rejected share")
    return out + by_load(lines, "bounded", p99, cell, ": P99")


def others(lines):
    out = ["## Delay", "", "A decision reaches its core, and news of a core the dispatcher, after a tenth and after"
           " three tenths of a service time; a theft takes as long. P99.", ""]
    for delay in lines.seen("delay", "delay"):
        out += by_load(lines, "delay", p99, cell, f", delay {delay / SERVICE_NS:g}", delay=delay)
    out += ["With four of 16 cores four times as slow, a tenth of a service time.", ""]
    out += by_load(lines, "delay-unequal", p99, cell)
    out += ["## Bursts", "", "Arrivals at 1.8 and 0.2 times the mean rate, by turns of 100 tasks on average. P99.",
            ""] + by_load(lines, "bursty", p99, cell)
    out += ["## Cores", "", "Equal cores, exponential, load 0.8. P99.", ""]
    cores = lines.seen("scale", "cores")
    rows = []
    for policy in lines.seen("scale", "policy"):
        cells = [lines.values(p99, "scale", policy=policy, cores=count) for count in cores]
        rows.append([policy] + [cell(values) if values else "" for values in cells])
    out += table(["policy"] + [f"{count} cores" for count in cores], rows)
    out += ["## Keys", "", "hash at load 0.5; 1024 keys by Zipf's law. P99 and the busiest core over the mean.", ""]
    rows = []
    for skew in lines.seen("keys", "key_skew"):
        found = lines.of("keys", key_skew=skew)
        rows.append([f"{skew or 0:g}", cell([p99(result) for result in found]),
                     cell([result["imbalance"] for result in found])])
    return out + table(["exponent", "P99", "imbalance"], rows)


def change(lines):
    out = ["## Change", "", "Four of 16 cores slow, load 0.7, P99. Moving: other cores become slow after every 40,000"
           " tasks. Turning: exponential service times become bimodal after half of the tasks.", ""]
    rows = []
    for policy in lines.seen("drift", "policy"):
        rows.append([policy] + [cell([p99(result) for result in found]) for found in (
            lines.of("drift", policy=policy, drift=40000), lines.of("drift", policy=policy, then="bimodal"))])
    return out + table(["policy", "moving", "turning"], rows)


def cost(lines):
    out = ["## Instructions a decision", "", "By callgrind, gcc 12 at -O2, load 0.7, from the first task on;"
           " stealing is not in them. `steal, slow`: a quarter of the cores takes four times as long.", ""]
    rows = []
    for policy in lines.seen("cost", "policy"):
        found = {line["cores"]: str(line["instructions"]) for line in lines.of("cost", policy=policy)}
        rows.append([policy] + [found.get(cores, "") for cores in (16, 256)])
    return out + table(["policy", "16 cores", "256 cores"], rows)


def clocked(lines):
    """Of several rounds the one with the least middle: the others were disturbed more."""
    out = ["## ns a decision", "", "By the clock, of the machine that recorded it (an AMD EPYC, 2 CPUs): middle, and"
           " 99th percentile, of the decisions of a run at load 0.7 with pools, less what reading the clock takes at"
           " least."
           " Between decisions the simulator uses the caches. The best of three rounds. `slow`: a quarter of the cores"
           " takes four times as long."
           " Made by `study.py run SIMULATOR clock`.", ""]
    best = {}
    reading = min(lines.values(lambda line: line["reading_ns"], "clock", kind="decide"), default=0)

    def shown(line, what):
        return ", ".join(f"{line[what][key] + line['reading_ns'] - reading:.0f}" for key in ("p50", "p99"))

    def sum_of(line):
        return line["decision"]["p50"] + line["reading_ns"]

    for line in lines.of("clock", kind="decide"):
        key = (line["policy"] + (", slow" if line["slow"] else ""), line["cores"])
        if key not in best or sum_of(line) < sum_of(best[key]):
            best[key] = line
    rows = []
    for policy in dict.fromkeys(key[0] for key in best):
        found = [best.get((policy, cores)) for cores in sets.CLOCKED]
        rows.append([policy] + [shown(line, "decision") if line else "" for line in found])
    out += table(["policy"] + [f"{cores} cores" for cores in sets.CLOCKED], rows)
    out += ["From a submission to the start of its task on an idle core, two threads pinned to two CPUs, ns. A worker"
            " looks on for some 100 us before it sleeps.", ""]
    rows = []
    for gap_ns in sets.GAPS_NS:
        found = lines.of("clock", kind="start", gap_ns=gap_ns)
        if found:
            line = min(found, key=lambda line: line["start"]["p50"])["start"]
            rows.append([f"{gap_ns / 1000:g} us"] + [f"{line[key]:,.0f}" for key in ("p50", "p99")])
    return out + table(["next one after", "middle", "P99"], rows)


# --- plots ---


def looks():
    return plots.looks_of(list(sets.ALL), "steal")


def draw_loads(lines, name, figure, label, title, traffics, policies, floor=None):
    pyplot = plots.pyplot
    columns = min(2, len(traffics))
    rows = math.ceil(len(traffics) / columns)
    drawing, panels = pyplot.subplots(rows, columns, figsize=(plots.WIDTH_INCHES, 0.4 + 2.7 * rows), squeeze=False)
    for axes, traffic in zip(panels.flat, traffics):
        for policy in policies:
            points = []
            for load in lines.seen(name, "load", traffic=traffic):
                values = lines.values(figure, name, policy=policy, traffic=traffic, load=load)
                if values:
                    points.append((load,) + interval(values))
            points = [point for point in points if floor is None or point[1] > floor]
            if not points:
                continue
            plots._line(axes, [point[:2] for point in points], policy, "steal", looks())
            colour = plots.INK if policy == "steal" else looks()[policy][0]
            axes.fill_between([x for x, _, _ in points], [max(y - e, 1e-6) for _, y, e in points],
                              [y + e for _, y, e in points], color=colour, alpha=0.15, linewidth=0)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(plots.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(plots.NullFormatter())
        axes.set_title(traffic)
        axes.grid(color=plots.TIE, alpha=0.35, linewidth=0.5)
        axes.set_xlabel("load")
    for row in panels:
        row[0].set_ylabel(label)
    plots._curve_legend(panels[0][-1], *panels.flat)
    drawing.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", y=1.01)
    drawing.tight_layout()
    return drawing


def draw_tails(lines, traffics):
    pyplot = plots.pyplot
    drawing, panels = pyplot.subplots(1, len(traffics), figsize=(plots.WIDTH_INCHES, 3.5), squeeze=False)
    shares = (50, 90, 95, 99, 99.9, 99.99)
    keys = ("p50", "p90", "p95", "p99", "p999", "p9999")
    for axes, traffic in zip(panels[0], traffics):
        for policy in SHOWN:
            found = lines.of("equal", policy=policy, traffic=traffic, load=0.8)
            points = [(plots.nines(share), interval([result["sojourn"][key] / SERVICE_NS for result in found])[0])
                      for share, key in zip(shares, keys)]
            plots._line(axes, points, policy, "steal", looks())
        axes.set_xticks([plots.nines(share) for share in (50, 90, 99, 99.9, 99.99)],
                        ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
        axes.set_yscale("log")
        axes.set_title(traffic)
        axes.grid(color=plots.TIE, alpha=0.35, linewidth=0.5)
        axes.set_xlabel("share of tasks that are faster")
    panels[0][0].set_ylabel("time in the system, service times")
    plots._curve_legend(panels[0][-1], *panels[0])
    drawing.suptitle("Equal cores, load 0.8", x=0.01, ha="left", fontsize=11, fontweight="bold", y=1.02)
    return drawing


def draw(lines):
    time = "P99, service times"
    nulls = (lambda result: 100 * (result["null_share"] + result["rejected_share"]))
    return {
        "dispatch-equal": draw_loads(lines, "equal", p99, time, "16 equal cores", sets.TRAFFICS, SHOWN),
        "dispatch-tails": draw_tails(lines, ("exponential", "bimodal")),
        "dispatch-unequal": draw_loads(lines, "unequal", p99, time, "16 cores, four of them four times as slow",
                                       sets.TRAFFICS, SHOWN),
        "dispatch-tight": draw_loads(lines, "tight", nulls, "NULL and rejected, %", "Tight pools",
                                     ("exponential", "bimodal"), SHOWN, 1e-4),
    }


def commits(results):
    """Which commits the lines are of, in a sentence."""
    found = {}
    for result in results:
        found.setdefault(result.get("commit") or "a commit that was not recorded", set()).add(result["set"])
    if len(found) == 1:
        return f"All lines are of {next(iter(found))}."
    sets_of_all = list(dict.fromkeys(result["set"] for result in results))

    def shown(name):
        return f"`{name}`" + (" in part" if sum(name in names for names in found.values()) > 1 else "")

    *fewer, most = sorted(found, key=lambda commit: (len(found[commit]), commit))
    parts = [f"{', '.join(shown(name) for name in sets_of_all if name in found[commit])} of {commit}"
             for commit in fewer]
    return f"All lines are of {most}, but for {'; '.join(parts)}."


def everything(results):
    """Every table, as `study.py tables` prints them."""
    lines = Lines(results)
    out = ["# Dispatch policies: every table", "", commits(results), ""]
    for part in (bound, equal, throughput, unequal, tight, refused, small, held_back, others, change, cost, clocked):
        out += part(lines)
    return "\n".join(out).rstrip() + "\n"


def ratio_at(lines, name, **wanted):
    """P99 of the default over that of the best of the others there, and which that is; nothing where none ran."""
    found = lines.of(name, policy="steal", **wanted)
    if not found:
        return ""
    best, _ = best_other(lines, name, p99, **wanted)
    mean, reach = interval(lines.ratios(p99, found, lines.of(name, policy=best, **wanted)))
    return f"{mean:.2f}±{reach:.2f} {best}"


def over_best(lines):
    """The default against the best of the others: settings and traffics down, loads across."""
    out = ["## The default over the best other", "",
           "P99 of `steal` over that of the best other policy, which is named."
           " `unequal`: four of 16 cores take four times as long; `one-slow`: one takes ten times as long; `delay`:"
           " decisions, news and thefts take that part of a service time, equal cores.", ""]
    rows = []
    for name in ("unequal", "one-slow", "delay"):
        for delay in lines.seen(name, "delay"):
            for traffic in lines.seen(name, "traffic", delay=delay):
                rows.append([name + (f" {delay / SERVICE_NS:g}" if delay else ""), traffic]
                            + [ratio_at(lines, name, traffic=traffic, load=load, delay=delay) for load in SHOWN_LOADS])
    return out + table(["cores", "traffic"] + [f"load {load:g}" for load in SHOWN_LOADS], rows)


def must(lines):
    """What the load alone takes from tight pools."""
    loads = lines.seen("tight", "load")
    out = ["## Tight pools", "", "16 blocks of each of 4 classes on each core, 4 on four of them; bimodal times."
           " What must fail under any policy that knows no sizes, if no task waits without end (`must_fail()` in"
           " `bench/dispatch/pages.py`).", ""]
    return out + table(["load"] + [f"{load:g}" for load in loads],
                       [["at least"] + [f"{100 * must_fail(load):.1f} %" for load in loads]])


def unseen(lines):
    """The same on seeds of the day of the run."""
    seeds = lines.seen("held-back", "seed")
    out = ["## Seeds that nobody saw", "",
           f"Seeds {min(seeds)} to {max(seeds)}, which the day of the run chose.", ""]
    loads = sorted(lines.seen("held-back", "load"))
    rows = [[setting, traffic] + [ratio_at(lines, "held-back", setting=setting, traffic=traffic, load=load)
                                  for load in loads]
            for setting in lines.seen("held-back", "setting")
            for traffic in lines.seen("held-back", "traffic", setting=setting)]
    return out + table(["cores", "traffic"] + [f"load {load:g}" for load in loads], rows)


def page(results):
    """The tables that decide."""
    lines = Lines(results)
    out = ["# Dispatch policies: the deciding figures", "",
           "`bench/dispatch/study.py report` writes this page from `bench/results/dispatch.jsonl.gz`; `study.py tables`"
           " prints every table, `sets.py` has each run's options. Ten seeds; mean and half-width of the 95 % interval;"
           " times in mean service times on an ordinary core, whatever the machine."
           " [What follows from them](dispatch.md).", "", commits(results), ""]
    for part in (bound, over_best, must, unseen):
        out += part(lines)
    return "\n".join(out).rstrip() + "\n"


def write(results):
    if plots.matplotlib is None:
        sys.exit("study: " + plots.WITHOUT_MATPLOTLIB)
    with plots.matplotlib.rc_context(plots.STYLE):
        for name, figure in draw(Lines(results)).items():
            plots.save(figure, IMAGES, name, False)
    PAGE.write_text(page(results))
