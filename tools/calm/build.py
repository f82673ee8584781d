"""Configures and builds presets, and says in one sentence what is missing for that. Where calm was installed without
the sources (the Python wheel), what it starts lies ready in lib/, and nothing is built."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time

import say
from trouble import Trouble

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IS_CHECKOUT = os.path.exists(os.path.join(ROOT, "CMakeLists.txt"))
BUILD = os.environ.get("CALM_BUILD_DIR") or os.path.join(ROOT, "build")
CMAKE_MIN = (3, 25)
COMPILERS_BY_PRESET = {"fuzz": "clang++-19", "clang": "clang++-19"}
PRESETS = ("release", "dev", "asan", "ubsan", "tsan", "fuzz", "clang", "coverage",
           "aarch64-tests", "aarch64-tests-64k")


def need_cmake():
    if shutil.which("cmake") is None:
        raise Trouble("cmake is missing; apt-get install cmake brings it.")
    words = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", words)
    if found is None or tuple(int(part) for part in found.groups()) < CMAKE_MIN:
        raise Trouble("cmake is older than 3.25; install a newer one and put it first in PATH.")
    if shutil.which("ninja") is None and shutil.which("make") is None:
        raise Trouble("neither ninja nor make is there; apt-get install ninja-build brings one.")
    if shutil.which(os.environ.get("CC") or "cc") is None:
        raise Trouble("a C compiler is missing; apt-get install gcc libc6-dev brings one.")


def need_build_folder():
    try:
        os.makedirs(BUILD, exist_ok=True)
    except OSError:
        pass
    if not os.access(BUILD, os.W_OK):
        raise Trouble("'%s' cannot be written; set CALM_BUILD_DIR to a folder that can." % BUILD)


def need_for_tests(preset):
    need_cmake()
    need_build_folder()
    compiler = COMPILERS_BY_PRESET.get(preset)
    if compiler is not None and shutil.which(compiler) is None:
        raise Trouble("%s is missing; apt-get install clang-19 libclang-rt-19-dev brings it." % compiler)
    compiler = compiler or os.environ.get("CXX") or "c++"
    if shutil.which(compiler) is None:
        raise Trouble("a C++ compiler is missing; apt-get install g++ brings one.")
    probe = subprocess.run([compiler, "-E", "-x", "c++", "-", "-o", os.devnull], input="#include <gtest/gtest.h>\n",
                           text=True, capture_output=True)
    if probe.returncode != 0:
        raise Trouble("GoogleTest is missing; apt-get install libgtest-dev brings it.")


def directory_of(preset):
    return os.path.join(BUILD, preset)


def configure_command(preset):
    command = ["cmake", "--preset", preset, "-S", ROOT, "-B", directory_of(preset)]
    has_cache = os.path.exists(os.path.join(directory_of(preset), "CMakeCache.txt"))
    if not has_cache and not os.environ.get("CMAKE_GENERATOR") and shutil.which("ninja"):
        command += ["-G", "Ninja"]
    return command


def newest_source_time():
    newest = 0.0
    for top in ("src", "include", "cmake", "tools/launch", "tools/pool", "tools/record",
                "tools/replay", "tools/sim", "tools/mq"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                newest = max(newest, os.stat(os.path.join(folder, name)).st_mtime)
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        newest = max(newest, os.stat(os.path.join(ROOT, name)).st_mtime)
    return newest


def is_current(preset, stamp):
    """True when the last successful build of what `stamp` stands for began after the last change of a source."""
    try:
        return os.stat(os.path.join(directory_of(preset), stamp)).st_mtime > newest_source_time()
    except OSError:
        return False


def place(name):
    """Where a file lies that is built."""
    return os.path.join(directory_of("lib") if IS_CHECKOUT else os.path.join(ROOT, "lib"), name)


def library():
    """Returns the path of the preloadable library; builds it when it is missing or old."""
    return built("libcalmalloc.so", "calm-built-library", ["calmalloc"])


def made(name):
    """The same of a file that belongs to it; all of them are built, and the library."""
    return built(name, "calm-built", [])


def built(name, stamp, targets):
    """`stamp` is of these targets; without any, of all."""
    def is_there():
        return os.path.exists(path) and (is_current("lib", stamp) or is_current("lib", "calm-built"))
    path = place(name)
    if not IS_CHECKOUT or is_there():
        return path
    need_build_folder()
    with open(os.path.join(BUILD, "lib.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there():
            build_quietly("lib", stamp, targets)
    return path


def recorder():
    return made("libcalm_sizes.so")


def launcher():
    return made("calm_launch")


def pool_measure():
    return made("calm_pool_measure")


def simulator():
    return made("calm_simulator")


def queue_server():
    return made("calmq")


def build_quietly(preset, stamp, targets):
    """Builds with one line of progress on standard error; the compiler's words go to a log."""
    need_cmake()
    folder = directory_of(preset)
    os.makedirs(folder, exist_ok=True)
    log_path = os.path.join(folder, "calm-build.log")
    begun = time.time()
    is_terminal = sys.stderr.isatty()
    if not is_terminal:
        say.line("calm: building calmalloc in %s" % folder)
    with open(log_path, "w") as log:
        for command in (configure_command(preset), ["cmake", "--build", folder, "-j", str(os.cpu_count() or 1)] +
                        (["--target"] + targets if targets else [])):
            run_with_progress(command, log, log_path, is_terminal)
    stamp = os.path.join(folder, stamp)
    with open(stamp, "w"):
        pass
    os.utime(stamp, (begun, begun))
    say.line("calm: built calmalloc in %.1f s" % (time.time() - begun), erase=is_terminal)


def run_with_progress(command, log, log_path, is_terminal):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", cwd=ROOT)
    tail = []
    for text in process.stdout:
        log.write(text)
        tail = (tail + [text.rstrip()])[-30:]
        step = re.match(r"\[ *(\d+[/%]\d*)", text)
        if is_terminal:
            sys.stderr.write("\r\x1b[Kcalm: building calmalloc %s" % (step.group(1) if step else "..."))
            sys.stderr.flush()
    if process.wait() != 0:
        if is_terminal:
            sys.stderr.write("\r\x1b[K")
        telling = [text for text in tail if re.search(r"\b(error|undefined reference|Error)\b", text)]
        for text in telling[:8] or tail[-8:]:
            say.line("    " + text)
        raise Trouble("building calmalloc failed; the whole log is %s." % log_path)
