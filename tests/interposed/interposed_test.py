"""Every function that the library calls may be another library's that asks for memory: nothing recurs or hangs.

usage: interposed_test.py CC NM LIBRARY INTERPOSER_OBJECT PROGRAM [NAME...]

A library is made of each function of the object, preloaded before the allocator, and PROGRAM run under each policy of
the sites, with the profiler at its finest, and with caches by core. A function that the allocator calls and that the
object lacks is a failure: write it.
"""
import os
import subprocess
import sys
import tempfile

# Not functions, or of no C library: the loader's and the compiler's words, data, what C++ libraries have.
NOT_CALLED = {"__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize",
              "__libc_single_threaded", "environ", "__environ", "__rseq_offset", "__rseq_size",
              "__stack_chk_fail"}  # the last ends the program
OF_CXX = ("_Z", "__cxa_")
SETTINGS = ("", "sites=hash", "sites=intern", "sites=learned", "sites=auto",
            "sites=hash,profile_kb=1,profile_signal=12", "sites=intern,profile_kb=1,wrappers=on",
            "cores=always,profile_kb=1,profile_signal=12", "cores=never,purge_delay_ms=0", "huge_from_mb=1")
NO_AREAS = "glibc.pthread.rseq=0"  # of the C library: threads make their own
SECONDS = 100


def symbols(nm, *arguments):
    listed = subprocess.run([nm, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()}


def interposing_library(cc, interposer, name, folder):
    script = os.path.join(folder, name + ".map")
    with open(script, "w", encoding="ascii") as file:
        file.write("{global: %s; local: *;};\n" % name)
    library = os.path.join(folder, name + ".so")
    subprocess.run([cc, "-shared", "-Wl,-Bsymbolic", "-Wl,--version-script=" + script, interposer, "-o", library],
                   check=True)
    return library


def main():
    cc, nm, *paths = sys.argv[1:6]
    library, interposer, program = map(os.path.abspath, paths)
    wanted = sys.argv[6:]
    called = {name for name in symbols(nm, "-D", "--undefined-only", library)
              if name not in NOT_CALLED and not name.startswith(OF_CXX)}
    known = symbols(nm, "-g", "--defined-only", interposer)
    failures = [f"{name}() is called, but tests/interposed/interposer.c has none" for name in sorted(called - known)]
    for name in wanted or sorted(known):
        with tempfile.TemporaryDirectory() as folder:
            preloads = interposing_library(cc, interposer, name, folder) + ":" + library
            for setting, tunables in [(setting, "") for setting in SETTINGS] + [("cores=always", NO_AREAS)]:
                environment = dict(os.environ, LD_PRELOAD=preloads, CALM_OPTIONS=setting, GLIBC_TUNABLES=tunables)
                try:
                    run = subprocess.run([program], env=environment, cwd=folder, stderr=subprocess.PIPE,
                                         timeout=SECONDS, check=False)
                    words = run.stderr.decode(errors="replace").strip()[-200:]
                    result = "" if run.returncode == 0 else f"exit {run.returncode} {words}"
                except subprocess.TimeoutExpired:
                    result = f"hangs for {SECONDS} s"
                if result:
                    failures.append(f"{name}, CALM_OPTIONS={setting}: {result}")
    if failures:
        sys.exit("\n".join(failures))


main()
