"""Positive controls: each mutant of the library, one mistake in one source, must make the named test fail.

    mutants.py SOURCE_DIR CC STRICT_SIM_LIB STRICT_LIB [NAME...]

A mutant is its one source, compiled anew, linked before the library, so that it takes the place of the right one.
The same tests without a mistake must pass first. With NAMEs only these are tried.
"""
import os
import re
import subprocess
import sys
import tempfile

# name: (source, text, replacement, test and its arguments). The text must be there; ALL of its places are changed.
MUTANTS = {
    "a flush loses a block": (
        "core/cache.c", "depot_flush(bin_held(bin), blocks, count, ",
        "depot_flush(bin_held(bin), blocks, count - (count > 3), ", "single"),
    "a bit of its neighbour is set": (
        "core/depot_put.c", "slab_put(slab, number)", "slab_put(slab, number ^ 1)", "single"),
    "a run of bits begins one too high": (
        "core/depot_put.c", "number + 1 - (unsigned)steps : number;",
        "number + 2 - (unsigned)steps : number + 1;", "single"),
    "a run of bits is put a word too far": (
        "core/depot_put.c", "slab_put_run(slab, number + (unsigned)put, steps)",
        "slab_put_run(slab, number + (unsigned)put + (put > 0 ? 64 : 0), steps)", "single"),
    "a class is taken that is not aligned": (
        "core/class.c", "bytes % align != 0", "bytes % 16 != 0", "single"),
    "calloc does not clear small blocks": (
        "core/heap.c", "        __builtin_memset(block, 0, bytes);\n", "        (void)bytes;\n", "single"),
    "free neighbours are not merged": (
        "mem/span_lists.c", "if (unit > 1 && span_is_alike(unit - 1, state, owner))", "if (false && state == 0)",
        "single"),
    "realloc copies a byte too few": (
        "core/heap.c", "__builtin_memcpy(moved, block, size_min(have, bytes));",
        "__builtin_memcpy(moved, block, size_min(have, bytes) - 1);", "single"),
    "pages with live blocks are purged": (
        "core/depot_purge.c", "&& is_range_free(slab, first, last))",
        "&& (is_range_free(slab, first, last) || last > 0))", "single"),
    "dirty spans are called zero": (
        "mem/span.c", "insert(unit, units, is_zero ? SPAN_CLEAN : SPAN_DIRTY);", "insert(unit, units, "
        "SPAN_CLEAN);", "single"),
    "large blocks are never given back": (
        "core/large.c", "span_release(unit, units, is_zero);", "(void)is_zero;", "single"),
    "a commit that failed is believed": (
        "mem/extent.c",
        "    if (error == 0)\n        fetch_add(&committed_all, raise(&extent->committed, target)",
        "    error = 0;\n    if (error == 0)\n        fetch_add(&committed_all, raise(&extent->committed, target)",
        "failing"),
    "the kernel is called under a lock": (
        "mem/span_purge.c", "    span_note_least();\n    span_unlock();\n}\n\n/* The program may have asked for huge",
        "    span_note_least();\n}\n\n/* The program may have asked for huge", "single"),
    "depots are not locked": (
        "core/depot.c", "depot_try_lock(depot)", "true", "threads"),
    "a core's array holds what lies below": (
        "core/cache.c", "if (!cache->is_for_cores && pushed > 0) { /*", "if (pushed > 0) { /*", "threads_by_cores"),
    "a cache is emptied in its slot": (
        "core/cores.c", "compare_swap(&core_slots[cache->core].base, &expected, &cache_none, RELAXED, RELAXED);",
        "(void)expected;", "threads_by_cores"),
    "a cache in a slot is called spare": (
        "core/cores.c", "core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE", "CACHE_SPARE", "threads_by_cores"),
    "homes share their lines": (
        "core/home.c", "has_homes ? home * HOME_ENTRY_BYTES : 0", "has_homes ? 0 : 0", "lines"),
    "a slab is lent where cohorts are apart": (
        "core/depot.c", "if (rows_are_separate || bin_is_sampled(depot->bin))", "if (bin_is_sampled(depot->bin))",
        "apart"),
    "free spans of two owners merge": (
        "mem/span_lists.c", "if (span_is_alike(behind, state, owner)) {", "if (span_state_at(behind) == state) {",
        "apart"),
    "a span is another owner's": (
        "mem/span.c", "struct span span = take_from(owner, units, align_units);",
        "struct span span = take_from(owner & ~3u, units, align_units);", "apart"),
    "the large cache hands out anybody's block where cohorts are apart": (
        "core/large_cache.c", "((uint32_t)word & KEY_MASK) == key &&",
        "(((uint32_t)word ^ key) & bits_below(KEY_UNITS_BITS)) == 0 &&", "apart"),
    "sampled blocks of all sites are one cohort's": (
        "core/sampled.c", "if (class == 0 || rows_are_separate)", "if (class == 0)", "apart"),
    "realloc stays where another site's block was": (
        "core/heap.c", "fits_in_place(have, bytes) && owner == row_owner(bin);",
        "fits_in_place(have, bytes) && (owner == row_owner(bin) || true);", "apart"),
    "two sites have one cohort": (
        "site/intern.c", "return row < COHORT_SAMPLED ? row : row + 1;",
        "return (row < COHORT_SAMPLED ? row : row + 1) & ~1u;", "apart"),
    "a fork believes that it has the depots": (
        "core/depot_table.c", "!lock_is_own(&depot->lock) && depot_lock_or_fail(depot);", "true;", "forks"),
}
ARGUMENTS = {"single": ["--seeds", "2", "--steps", "8000"], "failing": ["--seeds", "1"],
             "threads": ["--seed", "3", "--seeds", "1", "--steps", "24000"],
             "threads_by_cores": ["--seed", "3", "--seeds", "1", "--steps", "24000"],
             "forks": ["--seeds", "1", "--steps", "100"], "lines": [], "apart": ["--steps", "60000"]}
TIMEOUT_S = {"single": 100, "failing": 200, "threads": 40, "threads_by_cores": 40, "forks": 100, "lines": 100,
             "apart": 100}
BY_CORES = "_by_cores"
TRIES = 60


class Shop:
    def __init__(self, source, compiler, library_sim, library):
        self.source, self.compiler = os.path.abspath(source), compiler
        self.libraries = {"single": library_sim, "failing": library_sim, "threads": library,
                          "threads_by_cores": library, "forks": library, "lines": library, "apart": library}
        self.work = tempfile.TemporaryDirectory()
        self.objects = {}
        self.flags = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-w", "-fno-builtin", "-DCALM_CHECKS=2",
                      "-I" + os.path.join(self.source, "src"), "-I" + os.path.join(self.source, "include"),
                      "-I" + os.path.join(self.source, "tests", "stress")]

    def compile(self, path, name):
        out = os.path.join(self.work.name, name + ".o")
        subprocess.run([self.compiler, *self.flags, "-c", path, "-o", out], check=True)
        return out

    def test_object(self, test):
        test = test.removesuffix(BY_CORES)
        if test not in self.objects:
            self.objects[test] = self.compile(os.path.join(self.source, "tests", "stress", test + ".c"), "test_" + test)
        return self.objects[test]

    def run(self, test, extra):
        program = os.path.join(self.work.name, "program")
        subprocess.run([self.compiler, self.test_object(test), self.test_object("oracle"), *extra,
                        self.libraries[test], "-lpthread", "-o", program], check=True)
        environment = {**os.environ, "CALM_STRESS_CHILD_SECONDS": "5"}  # a child that hangs is a mutant caught
        if test.startswith("threads") or test == "forks":
            environment["CALM_OPTIONS"] = "cache_kb=16,sites=off"  # more work for fewer depots
        if test == "apart":
            environment["CALM_OPTIONS"] = "sites=intern"
        if test.endswith(BY_CORES):
            environment["CALM_OPTIONS"] += ",cores=always"
        try:
            done = subprocess.run([program, *ARGUMENTS[test]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=TIMEOUT_S[test], env=environment, errors="replace")
        except subprocess.TimeoutExpired:  # a heap whose lists are corrupt may go round in circles
            return -1, "stress: no end after %d s" % TIMEOUT_S[test]
        return done.returncode, done.stdout

    def mutate(self, path, text, replacement):
        with open(os.path.join(self.source, "src", path)) as file:
            original = file.read()
        pattern = re.sub(r"(\\?\s)+", r"\\s+", re.escape(text.strip()))  # however the formatter breaks lines
        if not re.search(pattern, original):
            sys.exit("%s no longer has the text %r: bring the list of mutants up to date" % (path, text))
        changed = os.path.join(self.work.name, path.replace("/", "_"))
        with open(changed, "w") as file:
            file.write(re.sub(pattern, lambda found: replacement.strip(), original))
        return self.compile(changed, "mutant")


def main():
    shop = Shop(*sys.argv[1:5])
    names = sys.argv[5:] or list(MUTANTS)
    failed = 0
    for test in sorted({MUTANTS[name][3] for name in names}):
        code, output = shop.run(test, [])
        if code != 0:
            print("%s fails without any mutant:\n%s" % (test, output[-2000:]))
            return 1
    for name in names:
        path, text, replacement, test = MUTANTS[name]
        mutant, code = shop.mutate(path, text, replacement), 0
        for _ in range(TRIES):  # how threads meet differs from run to run, and so what a mistake among them does
            if code == 0:
                code, output = shop.run(test, [mutant])
        words = next((line for line in output.splitlines() if line.startswith(("stress:", "calmalloc"))), "no words")
        is_caught = code != 0
        failed += not is_caught
        print("%-38s %s: %s" % (name, test, "caught: " + words if is_caught else "NOT CAUGHT " + output[-500:]),
              flush=True)
    print("%d of %d mutants caught" % (len(names) - failed, len(names)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
