"""The executors of a running process, read from outside by the facts of src/exec/running.c."""
from dataclasses import dataclass, field

import say
from facts import tables, text_of, unsigned
from process_memory import Gone

MAGIC, VERSION = "calmexec facts", 3  # EXEC_FACTS_VERSION of src/exec/running.c
CORES_MAX, CLASSES_MAX, NAME_BYTES = 1024, 64, 32
BAR, LOOSE_MAX = 5, 8  # characters of a bar; cores that are named as not pinned


@dataclass
class Core:
    number: int
    cpu: int
    is_pinned: bool
    is_asleep: bool
    done: int
    stolen: int
    sleeps: int
    busy_ns: int
    in_flight: int
    service_ns: int
    latency_ns: int
    pool_bytes: int
    pool_free_bytes: int
    pool_backlog: int
    free_blocks: list


@dataclass
class Executor:
    address: int
    policy: str
    inbox_capacity: int
    rejected: int
    shed: int
    waited: int
    block_bytes: list
    cores: list = field(default_factory=list)

    def done(self):
        return sum(core.done for core in self.cores)


class Executors:
    """Every look is at words that change meanwhile; an executor that goes during one is left out."""

    def __init__(self, process):
        self.process = process
        found, _ = tables(process, process.areas(), MAGIC, VERSION)
        self.tables = [facts for _, facts in found]

    def look(self):
        self.process.new_look()
        found = []
        for facts in self.tables:
            places = self.process.read(facts["running"], 8 * facts["running.count"])
            for place in range(facts["running.count"]):
                address = unsigned(places, 8 * place, 8)
                try:
                    if address:
                        found.append(self.executor(facts, address))
                except Gone:
                    self.process.resident_bytes()  # raises Gone when it is the process
        return found

    def executor(self, facts, address):
        data = self.process.read(address, facts["exec.bytes"])
        policy = unsigned(data, facts["exec.policy"], 8)
        name = unsigned(self.process.read(policy + facts["policy.name"], 8), 0, 8)
        classes = min(unsigned(data, facts["exec.classes"], 4), CLASSES_MAX)
        executor = Executor(address, text_of(self.process.read(name, NAME_BYTES)),
                            unsigned(data, facts["exec.inbox_capacity"], 4),
                            *(unsigned(data, facts["exec." + count], 8) for count in ("rejected", "shed", "waited")),
                            [unsigned(data, facts["exec.block_bytes"] + 8 * index, 8) for index in range(classes)])
        count = min(unsigned(data, facts["exec.cores"], 4), CORES_MAX)
        sizes = facts["worker.bytes"], facts["line.bytes"]
        workers, lines = (unsigned(data, facts["exec." + part], 8) for part in ("workers", "lines"))
        both = self.process.read_all([(workers, sizes[0] * count), (lines, sizes[1] * count)])
        for number in range(count):
            worker, line = (part[number * size:(number + 1) * size] for part, size in zip(both, sizes))
            executor.cores.append(self.core(facts, number, worker, line, classes))
        return executor

    def core(self, facts, number, worker, line, classes):
        def of(name, size=8):
            return unsigned(worker, facts["worker." + name], size)

        pool = of("pool")
        backlog = self.process.read(pool + facts["pool.backlog"], 4)
        return Core(number, of("cpu", 4), of("is_pinned", 1) != 0, of("doze", 4) == facts["doze.asleep"], of("done"),
                    of("stolen"), of("sleeps"), of("busy_ns"), unsigned(line, facts["line.count"], 4),
                    unsigned(line, facts["line.service_ns"], 4), unsigned(line, facts["line.latency_ns"], 4),
                    of("whole_bytes"), self.free_bytes(facts, pool), unsigned(backlog, 0, 4),
                    [unsigned(line, facts["line.free_blocks"] + 2 * index, 2) for index in range(classes)])

    def free_bytes(self, facts, pool):
        """What the free blocks of a pool come to: its classes' counts times what their blocks take."""
        count = min(unsigned(self.process.read(pool + facts["pool.class_count"], 4), 0, 4), CLASSES_MAX)
        size = facts["pool.class_bytes"]
        data = self.process.read(pool + facts["pool.classes"], count * size)
        classes = [data[number * size:(number + 1) * size] for number in range(count)]
        counts = self.process.read_all([(unsigned(each, facts["pool.class_count_of"], 8), 4) for each in classes])
        return sum(unsigned(free, 0, 4) * unsigned(each, facts["pool.class_stride"], 4)
                   for free, each in zip(counts, classes))


def rate(now, before, seconds):
    return "%s/s" % format(int((now - before) / seconds), ",") if seconds > 0 and now >= before else "-"


def busy(now, before, seconds):
    """The share of `seconds` that a core worked; of one that did not, whether it sleeps."""
    share = (now.busy_ns - before.busy_ns) / (seconds * 1e9) if before and seconds > 0 else 0
    percent = round(100 * min(max(share, 0), 1))
    if percent == 0 and now.is_asleep:
        return "asleep"
    return "%d %%" % percent if before else "-"


def bar(part, whole):
    """How full a core's pool is."""
    used = max(0, whole - part)
    filled = -(-BAR * used // whole) if whole else 0
    return "[%s%s]" % ("#" * filled, "." * (BAR - filled))


def lines(found, before, seconds, cores_max):
    """Lines of a page: a headline and a table for each executor. `before` is what was seen `seconds` ago, or None."""
    old = {executor.address: executor for executor in before or []}
    told = []
    for executor in found:
        was = old.get(executor.address)
        told += ["", "  executor of %s, policy %s: %s, rejected %s, shed %s, waited %s" % (
            say.count(len(executor.cores), "core"), executor.policy,
            rate(executor.done(), was.done(), seconds) if was else say.count(executor.done(), "task"),
            *(format(count, ",") for count in (executor.rejected, executor.shed, executor.waited)))]
        rows = [["core", "tasks", "busy", "in flight", "mean", "stolen", "pool free", ""]]
        for core in executor.cores[:cores_max]:
            then = was.cores[core.number] if was and core.number < len(was.cores) else None
            rows.append(["%d, CPU %d" % (core.number, core.cpu),
                         rate(core.done, then.done, seconds) if then else format(core.done, ","),
                         busy(core, then, seconds),
                         format(core.in_flight, ","), "%.1f us" % (core.service_ns / 1000),
                         format(core.stolen, ","), say.amount(core.pool_free_bytes),
                         bar(core.pool_free_bytes, core.pool_bytes)])
        told += say.aligned(rows)
        loose = [str(core.number) for core in executor.cores if not core.is_pinned]
        if loose:
            told.append("  not pinned: core %s" % ", ".join(loose[:LOOSE_MAX]) + (" ..." if loose[LOOSE_MAX:] else ""))
        if len(executor.cores) > cores_max:
            told.append("  and %s" % say.count(len(executor.cores) - cores_max, "more core"))
    return told


def as_json(found):
    return [{"policy": executor.policy, "inbox_capacity": executor.inbox_capacity, "rejected": executor.rejected,
             "shed": executor.shed, "waited": executor.waited, "block_bytes": executor.block_bytes,
             "cores": [{"core": core.number, "cpu": core.cpu, "is_pinned": core.is_pinned,
                        "is_asleep": core.is_asleep, "done": core.done, "stolen": core.stolen,
                        "sleeps": core.sleeps, "busy_ns": core.busy_ns, "in_flight": core.in_flight,
                        "service_ns": core.service_ns, "latency_ns": core.latency_ns,
                        "pool_bytes": core.pool_bytes, "pool_free_bytes": core.pool_free_bytes,
                        "pool_backlog": core.pool_backlog, "free_blocks": core.free_blocks}
                       for core in executor.cores]} for executor in found]
