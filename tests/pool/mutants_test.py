"""Positive controls: each mutant of the pools' sources must make tests/pool/stress.c fail, which passes without. With
a sanitizer's name, the same stress is run under it, and one mistake that only this sanitizer sees.

    mutants_test.py SOURCE_DIR CC [tsan|asan]
"""
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile

# name: (source, text, replacement, the stress's arguments)
MUTANTS = {
    "a block is given twice": ("pool.c", "store(word, after, RELAXED);",
                               "store(word, i % 9 == 8 ? free : after, RELAXED);", ["single"]),
    "an owner's double free is taken": ("pool.c", "if (unlikely(level_with(free, at.i) == free))",
                                        "if (free == 1)", ["single"]),
    "what was handed out last may be freed twice": ("pool.c", "    latest->block = NULL;\n", "", ["plain"]),
    "what was handed out last is freed in another word": (
        "pool.c", "{\n    forget_latest(pool);\n    class->hot = w;", "{\n    class->hot = w;", ["plain"]),
    "what was handed out last takes back what was freed since": (
        "pool.c", "    if (pool->latest.of != NULL)\n        forget_latest(pool);\n", "", ["plain"]),
    "a class is told by the beginning of the part that it shares": (
        "create.c", "keys_below(pool->last_byte, last)", "keys_below(pool->last_byte, i << pool->granule_shift)",
        ["single"]),
    "what was freed last is handed out twice": ("pool.c", "    latest->block = latest->back;\n", "", ["plain"]),
    "what was freed last is handed out to any class": (
        "pool.c", "pool->latest.block == NULL && class == pool->latest.of &&",
        "pool->latest.block == NULL && pool->latest.of != NULL &&", ["plain"]),
    "what a word had before it was begun is believed": (
        "pool.c", "        store(word_freed(class, word), 0, RELAXED);\n", "        (void)0;\n", ["single"]),
    "a level is not empty when it is begun": ("pool.c", "        class->near[w / 64] = 0;\n", "        (void)0;\n",
                                              ["single"]),
    "a word is begun while another has blocks": (
        "pool.c", "    if (class->root != 0)\n",
        "    if (class->root != 0 && load(&class->begun, RELAXED) == class->blocks)\n", ["single"]),
    "a block that is not begun may be freed": ("pool.c", "store(&class->begun, begun + blocks, RELEASE);",
                                               "store(&class->begun, class->blocks, RELEASE);", ["single"]),
    "a word is left though it has blocks": ("pool.c", "    if (load(class->hot_word, RELAXED) != 0)\n        return;\n"
                                            "    if (class->hot != ", "    if (load(class->hot_word, RELAXED) > 1)\n"
                                            "        return;\n    if (class->hot != ", ["single"]),
    "an empty word stays in the levels": ("pool.c", "        levels_clear(&class->root, class->far, class->near, "
                                          "class->hot);\n    make_hot(pool, class, w);",
                                          "        (void)0;\n    make_hot(pool, class, w);", ["plain"]),
    "a remote free is forgotten": ("pool.c", "    if (free == 0)\n        raise_word(pool, class, w);\n", "",
                                   ["single"]),
    "remote frees are not counted": ("pool.c", "    count_more(class, count);\n", "", ["single"]),
    "a remote free's word is not made pending": (
        "pool.c", "    mark_level(&pending_near(at->class)[w >> LEVEL_BITS], w & 63);\n", "", ["single"]),
    "a level above a pending word is lowered": (
        "pool.c", "    if (load(below, SEQ_CST) != 0)\n        return;\n    fetch_and(above, ~level_bit(i), SEQ_CST);\n"
        "    if (load(below, SEQ_CST) != 0)\n        fetch_or(above, level_bit(i), SEQ_CST);\n",
        "    fetch_and(above, ~level_bit(i), SEQ_CST);\n    (void)below;\n", ["single"]),
    "what a pending level had before it was begun is believed": (
        "pool.c", "        store(&pending_near(class)[w / 64], 0, RELAXED);\n", "", ["single"]),
    "a remote free's mark outlives it": ("pool.c", "        fetch_and(word_freed(class, word), ~level_bit(i), "
                                         "RELAXED);", "        (void)0;", ["single"]),
    "a free does not lower the first word": ("pool.c", "    if (w > class->hot)\n        return;\n",
                                             "    if (class->hot != POOL_NONE)\n        return;\n", ["single"]),
    "the far level is not cleared": ("levels.h", "    level_clear(far, w / 64);\n", "", ["single"]),
    "a class too small is taken": ("levels.h", "at += keys[at] < value ? 1u : 0u;", "(void)0;", ["single"]),
    "an interior pointer is freed": ("pool.c", "return turned * class->inverse;",
                                     "return inside / class->stride;", ["single"]),
    "an aligned request is served by any class": ("pool.c", "pool->with_align[bit_lowest(align)]",
                                                  "pool->with_align[0]", ["single"]),
    "two classes overlap": ("plan.c", "at += class->blocks * class->stride;",
                            "at += (class->blocks - 1) * class->stride;", ["single"]),
    "a remote free is two steps": ("pool.c", "(fetch_or(word_freed(at->class, at->word), bit, SEQ_CST) & bit) == 0;",
                                   "({ pool_word *one = word_freed(at->class, at->word);\n"
                                   "uint64_t had = load(one, RELAXED);\n"
                                   "for (int i = 0; i < 50; i++) __asm__ volatile(\"\");\n"
                                   "store(one, had | bit, RELEASE);\n(had & bit) == 0; });",
                                   ["threads"]),
}
TRIES = 12  # how threads meet differs from run to run, and so whether a mistake among them is seen

# name: flags, the runs, and the mistake that only it sees with a word of its report.
SANITIZERS = {
    "tsan": ("-fsanitize=thread", [["threads", "1"], ["threads", "2"]],
             ("pool.c", "load(word_freed(class, word), SEQ_CST)", "load(word_freed(class, word), RELAXED)",
              ["threads"]), "data race"),
    "asan": ("-fsanitize=address,undefined", [["single", "2"], ["plain", "3"], ["threads", "3"]],
             ("plan.c", "if (cost_of(class, middle) <= share)", "if (cost_of(class, middle) <= share + 100000)",
              ["plain", "3"]), "heap-buffer-overflow"),
}


class Shop:
    def __init__(self, source, compiler, work):
        self.source, self.compiler, self.work = os.path.abspath(source), compiler, work
        self.pool = os.path.join(self.source, "src", "pool")

    def build(self, name, flags, mutant=None):
        """The stress program; a mutant's folder is looked into before the right one."""
        folder = os.path.join(self.work, name)
        os.makedirs(os.path.join(folder, "pool"))
        sources = {os.path.basename(path): path for path in glob.glob(os.path.join(self.pool, "*.c"))}
        if mutant is not None:
            path, text, replacement, _ = mutant
            with open(os.path.join(self.pool, path)) as file:
                original = file.read()
            if original.count(text) != 1:
                sys.exit("src/pool/%s has the text %r %d times: bring this list up to date" %
                         (path, text, original.count(text)))
            changed = os.path.join(folder, "pool", path)
            with open(changed, "w") as file:
                file.write(original.replace(text, replacement))
            if path in sources:
                sources[path] = changed
        program = os.path.join(folder, "stress")
        subprocess.run([self.compiler, "-std=c17", "-O1", "-g", "-w", *flags, "-I" + folder,
                        "-I" + os.path.join(self.source, "src"), "-I" + os.path.join(self.source, "include"),
                        os.path.join(self.source, "tests", "pool", "stress.c"), *sorted(sources.values()),
                        os.path.join(self.source, "src", "os", "linux", "claim.c"), "-lpthread", "-o", program],
                       check=True)
        return program


def run(program, arguments):
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=250, env=environment, cwd=os.path.dirname(program))
    return done.returncode, done.stdout


def try_mutant(shop, number, mutant):
    program = shop.build("mutant%d" % number, [], mutant)
    try:
        return any(run(program, [*mutant[3], str(seed)])[0] for seed in range(1, TRIES + 1))
    except subprocess.TimeoutExpired:
        return True  # it waits for blocks that never come


def main():
    with tempfile.TemporaryDirectory() as work:
        shop = Shop(sys.argv[1], sys.argv[2], work)
        if len(sys.argv) > 3:
            flag, runs, mutant, word = SANITIZERS[sys.argv[3]]
            program = shop.build("right", [flag])
            for arguments in runs:
                code, output = run(program, arguments)
                print(output[-3000:])
                if code != 0:
                    return 1
            program = shop.build("mutant", [flag], mutant)
            for _ in range(TRIES):
                code, output = run(program, mutant[3])
                if word in output:
                    break
            print("the control was %s: %s" % ("caught" if word in output else "not caught", mutant[2]))
            return 0 if word in output else 1
        program = shop.build("right", [])
        for arguments in (["single", "1"], ["plain", "1"], ["threads", "1"]):
            code, output = run(program, arguments)
            if code != 0:
                print(output)
                return 1
        missed = 0
        with concurrent.futures.ThreadPoolExecutor(2) as two:
            caught = list(two.map(lambda item: try_mutant(shop, *item), enumerate(MUTANTS.values())))
        for name, was_caught in zip(MUTANTS, caught):
            print("%s: %s" % (name, "caught" if was_caught else "NOT CAUGHT"))
            missed += not was_caught
        return 1 if missed else 0


sys.exit(main())
