"""CPython with PYTHONMALLOC=malloc, so that every object comes from malloc: a script of ours, and its own tests."""

import re
import subprocess
import xml.etree.ElementTree

from cases import case
from harness import SCRIPTS, Failure, Skip, find_program

ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
SUITE_PACKAGES = ("python3", "libpython3.11-testsuite")
TRIES = 3
CRASH = re.compile(r"SIG(SEGV|ABRT|BUS|ILL)|Segmentation|Aborted|calmalloc:|(?<!\d)-(6|7|11)(?!\d)")


@case("python", "programs", ("python3",), must_see=(r"python3.*", "dash|bash|sh|python3.*"))
def tour(world):
    world.run(find_program("python3"), SCRIPTS / "tour.py", env=ENVIRONMENT)


@case("python_suite_data", "programs", SUITE_PACKAGES, 120)
def suite_data(world):
    run_suite(world, ["test_json", "test_dict", "test_ctypes", "test_bytes", "test_mmap"])


@case("python_suite_threads", "programs", SUITE_PACKAGES, 200)
def suite_threads(world):
    run_suite(world, ["test_thread", "test_threading"])


@case("python_suite_subprocess", "programs", SUITE_PACKAGES, 200)
def suite_subprocess(world):
    run_suite(world, ["test_subprocess"])


@case("python_suite_multiprocessing", "programs", SUITE_PACKAGES, 200)
def suite_multiprocessing(world):
    """The classes that allocate and fork most; the rest of this test mostly sleeps, and runs with all the others."""
    wanted = (
        "WithProcessesTestPool",
        "WithProcessesTestQueue",
        "TestHeap",
        "TestSharedCTypes",
        "TestSharedMemory",
        "TestForkAware*",
    )
    patterns = [word for name in wanted for word in ("-m", f"*.*{name}.*")]
    run_suite(world, ["test_multiprocessing_fork"], patterns + ["-i", "test_map_no_failfast"])


@case("python_suite_full", "full", SUITE_PACKAGES, 900)
def suite_full(world):
    run_suite(
        world,
        [
            "test_multiprocessing_fork",
            "test_gc",
            "test_list",
            "test_set",
            "test_memoryview",
            "test_unicode",
            "test_re",
            "test_decimal",
            "test_pickle",
            "test_io",
            "test_zlib",
            "test_fork1",
            "test_exceptions",
            "test_weakref",
            "test_array",
            "test_collections",
            "test_long",
            "test_sort",
            "test_generators",
            "test_tracemalloc",
        ],
    )


def run_suite(world, tests, options=()):
    """
    Runs parts of the interpreter's own test suite; the result of each test method is what both worlds must agree on.
    A test that fails gets two more tries, for many depend on the clock and the machine may be busy. Not so one that
    mentions a signal, for a crash that comes and goes is just what we look for.
    """
    python = find_program("python3")
    for test in tests:
        found = subprocess.run(
            [python, "-c", f"import test.{test}"], cwd=world.work, env=ENVIRONMENT, capture_output=True
        )
        if found.returncode:
            raise Skip(f"{python} has no test.{test}")
    for test in tests:
        run_test(world, python, test, options)


def run_test(world, python, test, options):
    step, results, crashes = try_test(world, python, test, options)
    for _ in range(TRIES - 1):
        failed = [name for name, result in results.items() if result == "failed"]
        if not failed or crashes:
            break
        again, second, crashes = try_test(world, python, test, [word for name in failed for word in ("-m", name)])
        results.update({name: second.get(name, "failed") for name in failed})
        step.stderr += again.stderr
    world.steps.append(step)
    world.state(f"results of {test}", "\n".join(f"{name} {result}" for name, result in sorted(results.items())))
    if crashes:
        raise Failure("\n".join(crashes))


def try_test(world, python, test, options):
    report = world.work / "results.xml"
    process = world.start(
        python,
        "-m",
        "test",
        "-q",
        "--timeout",
        "120",
        "--junit-xml",
        report,
        *options,
        test,
        env=ENVIRONMENT,
        label=f"python -m test {test}",
    )
    step = process.wait(world.seconds_left(300))
    if step is None or step.exit_code < 0 or not report.exists():
        end = "no end, killed" if step is None else f"exit code {step.exit_code}, no results"
        said = "" if step is None else (step.stdout + step.stderr).decode(errors="replace")[-3000:]
        raise Failure(f"python -m test {test}: {end}\n{said}\n  repeat with: {process.command()}")
    step.exit_code, step.stdout = 0, b""  # The results say more, and a second try may mend them.
    results, crashes = {}, []
    for entry in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        name = entry.get("name")
        troubles = [child for child in entry if child.tag in ("failure", "error")]
        results[name] = "failed" if troubles else "skipped" if entry.find("skipped") is not None else "passed"
        crashes += [f"{name}: {trouble.text}" for trouble in troubles if CRASH.search(trouble.text or "")]
    report.unlink()
    return step, results, crashes
