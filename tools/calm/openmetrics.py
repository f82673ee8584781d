"""The numbers of processes in the text format of OpenMetrics, which Prometheus and node exporter's textfile collector
read as well: a family for each number, a line in it for each process."""
from memory_numbers import KEYS

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TYPE_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
PARTS = ("heap", "file_maps", "stacks", "other_anonymous")  # of the process's RSS: their sum is it
HELP = {
    "requested": "What the program asked for and has, as the profiler estimates it; only while it saw all requests.",
    "block": "Live blocks, in their sizes.",
    "untouched": "What of the live blocks has no memory yet.",
    "cached": "Free blocks in caches and batches, and large ones kept for reuse.",
    "free_in_slabs": "Free parts of slabs that are in memory.",
    "dirty": "Whole free units that are in memory and not given back yet.",
    "metadata": "The books of the heap.",
    "resident": "What of the heap is in memory.",
    "swapped": "What of the process was swapped out.",
}


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labels(pid, program, **more):
    words = [("pid", str(pid)), ("program", program)] + list(more.items())
    return "{%s}" % ",".join('%s="%s"' % (name, escaped(value)) for name, value in words)


def text(found):
    """Of (pid, program, numbers or None where there are none) for each process."""
    lines = ["# HELP calmalloc_up Whether the process is there and could be read.", "# TYPE calmalloc_up gauge"]
    lines += ["calmalloc_up%s %d" % (labels(pid, program), numbers is not None) for pid, program, numbers in found]
    living = [(pid, program, numbers) for pid, program, numbers in found if numbers is not None]
    for key in KEYS:
        if key in HELP:
            rows = [(labels(pid, program), numbers[key]) for pid, program, numbers in living]
            lines += family("calmalloc_%s%s_bytes" % ("process_" if key == "swapped" else "", key), HELP[key], rows)
    rows = [(labels(pid, program, part=part), numbers[part]) for pid, program, numbers in living for part in PARTS]
    lines += family("calmalloc_process_rss_bytes", "The process's resident memory, by what it is for.", rows)
    return "\n".join(lines + ["# EOF", ""])


def family(name, words, rows):
    rows = ["%s%s %d" % (name, labelled, value) for labelled, value in rows if value is not None]
    if not rows:
        return []
    return ["# HELP %s %s" % (name, words), "# TYPE %s gauge" % name, "# UNIT %s bytes" % name] + rows
