"""How each peer is fetched and built. One entry a peer: what it is, from where, with which flags, what it cannot do.

An entry's key covers all that decides what is built: a changed pin or flag builds that peer again, and no other.
"""

import hashlib
import os
import platform
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Tuple

from .base import Stop
from .build import COMPILER
from .peer_tools import PINS, Workshop, crates, unzip

COMPILER_CXX = os.environ.get("CXX", "g++")


@dataclass(frozen=True)
class Recipe:
    version: str
    source: str
    flags: str
    make: Callable[[Workshop, "Recipe"], Path]
    package: Tuple[str, ...] = ()  # the pin: package, its version, its hash, the file wanted of it
    options: Tuple[str, ...] = ()  # of the compiler or of cmake
    files: Tuple[str, ...] = ()  # of bench/peers, that the library is made of
    env: Dict[str, str] = field(default_factory=dict)  # the program must be started with this
    has_per_cpu_path: bool = False
    cannot: str = ""

    def key(self) -> str:
        sha = hashlib.sha256(repr((self.version, self.package, self.options)).encode())
        for name in self.files:
            sha.update((PINS / name).read_bytes())
        return sha.hexdigest()[:16]


def _needs_x86(recipe: Recipe) -> None:
    if platform.machine() != "x86_64":
        raise Stop(f"its pinned package {recipe.package[0]} holds an x86-64 file only.")


def _wheel(shop: Workshop, recipe: Recipe) -> Path:
    _needs_x86(recipe)
    package, version, sha, member = recipe.package
    shop.clean()
    archive = shop.wheel(package, version, sha)
    return shop.keep(unzip(archive, member, shop.folder / "library.so"))


def _debian(shop: Workshop, recipe: Recipe) -> Path:
    _needs_x86(recipe)
    package, version, sha, library = recipe.package
    shop.clean()
    root = shop.debian(package, version, sha)
    found = next(root.rglob(library), None)
    if found is None:
        raise Stop(f"the package {package} has no {library}.")
    kept = shop.keep(found)
    shop.clean()
    return kept


def _snmalloc(shop: Workshop, recipe: Recipe) -> Path:
    crate, target = recipe.package
    source = shop.crate(crate) / "upstream"
    shop.clean()
    shop.build(["cmake", "-S", source, "-B", shop.folder, *recipe.options], f"{shop.name}, configuring")
    shop.build(["cmake", "--build", shop.folder, "--target", target, "-j1"], shop.name)
    return shop.keep(shop.folder / f"lib{target}.so")


def _one_file(shop: Workshop, recipe: Recipe) -> Path:
    """An allocator whose library is made of one C file of a crate."""
    crate, file, include = recipe.package
    root = shop.crate(crate)
    shop.clean()
    made = shop.folder / "library.so"
    command = [COMPILER, *recipe.options, "-I", root / include, "-o", made, root / file, "-lpthread"]
    shop.build(command, shop.name)
    return shop.keep(made)


def _hardened(shop: Workshop, recipe: Recipe) -> Path:
    """The crate's untouched copy of the allocator; its own settings file gives the configuration."""
    crate, settings = recipe.package
    root = shop.crate(crate)
    source = root / "vendor" / "hardened-malloc"
    shop.clean()
    configuration = []
    for line in (root / settings).read_text().splitlines():
        if line and not line.startswith("#"):
            configuration.append("-D" + line.strip())
    includes = ["-I", source / "include", "-I", source / "third_party", "-D_GNU_SOURCE"]
    common = [*recipe.options, *configuration, *includes]
    names = ("chacha.c", "h_malloc.c", "memory.c", "pages.c", "random.c", "util.c")
    c = [COMPILER, "-std=c2x", "-include", "stdalign.h", *common]
    made = shop.objects([source / name for name in names], c, shop.name)
    cxx = [COMPILER_CXX, "-std=c++17", "-fsized-deallocation", *common]
    made += shop.objects([source / "new.cc"], cxx, shop.name)
    library = shop.folder / "library.so"
    link = ["-shared", "-flto=auto", "-Wl,-O1,--as-needed,-z,defs,-z,relro,-z,now,-z,nodlopen,-z,text"]
    shop.build([COMPILER_CXX, *recipe.options, *link, "-o", library, *made, "-lpthread"], f"{shop.name}, linking")
    return shop.keep(library)


def _tcmalloc_percpu(shop: Workshop, recipe: Recipe) -> Path:
    """The crate's copy of the allocator as Google publishes it: neither the crate's patch nor its renaming is used.

    The list of files is the crate's own, less its bridge to Rust and with the file that defines malloc instead.
    """
    root = shop.crate(recipe.package[0])
    listed = re.findall(r'"(c_src/(?:abseil-cpp|tcmalloc)/[^"]+\.(?:cc|S))"', (root / "build.rs").read_text())
    sources = [root / name for name in listed] + [root / "c_src" / "tcmalloc" / "tcmalloc" / "tcmalloc.cc"]
    if len(listed) < 100:
        raise Stop(f"the crate {recipe.package[0]} lists {len(listed)} files only, so its build file is another one.")
    stamp = shop.folder / "key"
    if not stamp.exists() or stamp.read_text() != recipe.key():
        shop.clean()
        stamp.write_text(recipe.key())
    includes = ["-I", root / "c_src" / "abseil-cpp", "-I", root / "c_src" / "tcmalloc"]
    made = shop.objects(sources, [COMPILER_CXX, *recipe.options, *includes], shop.name)
    library = shop.folder / "library.so"
    script = f"-Wl,--version-script={PINS / 'tcmalloc.map'}"
    link = ["-shared", "-Wl,--gc-sections,-z,now,-z,defs", script]
    shop.build([COMPILER_CXX, *link, "-o", library, *made, "-lpthread", "-lrt"], f"{shop.name}, linking")
    return shop.keep(library)


def _tlsf(shop: Workshop, recipe: Recipe) -> Path:
    shop.crate(recipe.package[0])
    folder = shop.clean()
    for name in recipe.files:
        shutil.copyfile(PINS / name, folder / name)
    replaced = ["--config", "source.crates-io.replace-with='vendored'"]
    replaced += ["--config", f"source.vendored.directory='{crates()}'"]
    shop.build(["cargo", "build", "--release", "--offline", "--locked", "-j1", *replaced], shop.name, cwd=folder)
    return shop.keep(folder / "target" / "release" / "libcalm_bench_peers.so")


def _zig(shop: Workshop, recipe: Recipe) -> Path:
    """The package is the compiler with its library: large, so it is removed when the peer is built."""
    _needs_x86(recipe)
    package, version, sha = recipe.package
    folder = shop.clean()
    archive = shop.wheel(package, version, sha)
    shutil.unpack_archive(archive, folder / "compiler", "zip")
    compiler = folder / "compiler" / "ziglang" / "zig"
    compiler.chmod(0o755)
    caches = ["--cache-dir", folder / "cache", "--global-cache-dir", folder / "cache"]
    library = folder / "library.so"
    command = [compiler, "build-lib", *recipe.options, *caches, f"-femit-bin={library}", PINS / recipe.files[0]]
    shop.build(command, shop.name)
    kept = shop.keep(library)
    shop.clean()
    return kept


_RELEASE = ("-DCMAKE_BUILD_TYPE=Release", "-DSNMALLOC_BUILD_TESTING=OFF")
# Its C++ support library is linked in; hiding that keeps programs on their own.
_HIDDEN = ("-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,ALL",)
_HARDENED_CRATE = "hardened-malloc-sys-16.0.2026071503"
_HARDENED_FLAGS = ("-O3", "-flto=auto", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-fstack-clash-protection")
_HARDENED_FLAGS += ("-fcf-protection", "-fstack-protector-strong", "-pipe")

RECIPES: Dict[str, Recipe] = {
    "mimalloc3": Recipe(
        version="3.4.3",
        source="Python package cmeel-mimalloc",
        flags="as packaged",
        make=_wheel,
        package=(
            "cmeel-mimalloc",
            "3.4.3",
            "627d9e379503fd8a1001bed618f7434477c221f017cf31d4caca65d464731ff0",
            "/libmimalloc.so.3",
        ),
        cannot="asks for huge pages by default",
    ),
    "mimalloc23": Recipe(
        version="2.3.2",
        source="crate libmimalloc-sys, the allocator's own sources in it",
        flags="-O3, override on, as its own build file has it",
        make=_one_file,
        package=(
            "libmimalloc-sys-0.1.49",
            "c_src/mimalloc/v2/src/static.c",
            "c_src/mimalloc/v2/include",
        ),
        options=(
            "-std=gnu11",
            "-O3",
            "-DNDEBUG",
            "-DMI_MALLOC_OVERRIDE",
            "-DMI_SHARED_LIB",
            "-DMI_SHARED_LIB_EXPORT",
            "-w",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-fno-builtin-malloc",
            "-ftls-model=initial-exec",
        ),
    ),
    "mimalloc2": Recipe(
        version="2.0.9",
        source="Debian package libmimalloc2.0",
        flags="as packaged",
        make=_debian,
        package=(
            "libmimalloc2.0",
            "2.0.9+ds-2",
            "a20035605a532be3186f0f48607c7106fe2a5551066c29de663c965692c446c4",
            "libmimalloc.so.2",
        ),
        cannot="not the 2.x of today",
    ),
    "jemalloc": Recipe(
        version="5.3.0",
        source="Debian package libjemalloc2",
        flags="as packaged",
        make=_debian,
        package=(
            "libjemalloc2",
            "5.3.0-1",
            "a4117c23c5c8acf6c9678a6cb086f000b79476369da7efe8a78a70826956ad3d",
            "libjemalloc.so.2",
        ),
        cannot="Debian's build, not 5.3.1",
    ),
    "tcmalloc": Recipe(
        version="2.10",
        source="Debian package libtcmalloc-minimal4",
        flags="as packaged",
        make=_debian,
        package=(
            "libtcmalloc-minimal4",
            "2.10-1",
            "464aa2e804b0d48300ad71edfe525599deed8765db4af7a8d9de60326dc8e4c7",
            "libtcmalloc_minimal.so.4",
        ),
        cannot="gperftools: caches for each thread, not for each processor",
    ),
    "scudo": Recipe(
        version="19.1.7",
        source="Debian package libclang-rt-19-dev",
        flags="as packaged, standalone",
        make=_debian,
        package=(
            "libclang-rt-19-dev",
            "1:19.1.7-3~deb12u1",
            "872464dcd1aa3538e417e177f74a4c549b19313acaa1fe9465d32b936e9ef8eb",
            "libclang_rt.scudo_standalone-x86_64.so",
        ),
    ),
    "snmalloc": Recipe(
        version="0.7.6",
        source="crate snmalloc-sys, its own shim target",
        flags="cmake Release",
        make=_snmalloc,
        package=("snmalloc-sys-0.7.6", "snmallocshim"),
        options=_RELEASE + _HIDDEN,
        cannot="reserves more addresses than valgrind grants",
    ),
    "snmalloc_checks": Recipe(
        version="0.7.6",
        source="crate snmalloc-sys, its own target with checks",
        flags="cmake Release, SNMALLOC_CHECK_CLIENT",
        make=_snmalloc,
        package=("snmalloc-sys-0.7.6", "snmallocshim-checks"),
        options=_RELEASE + _HIDDEN,
        cannot="reserves more addresses than valgrind grants",
    ),
    "rpmalloc": Recipe(
        version="1.4.3 (crate 0.2.3)",
        source="crate rpmalloc-sys",
        flags="-O3, override and preload on",
        make=_one_file,
        package=("rpmalloc-sys-0.2.3+b097fd0", "rpmalloc/rpmalloc/rpmalloc.c", "rpmalloc/rpmalloc"),
        options=(
            "-std=c11",
            "-O3",
            "-DNDEBUG",
            "-D_GNU_SOURCE",
            "-DENABLE_OVERRIDE=1",
            "-DENABLE_PRELOAD=1",
            "-w",
            "-fPIC",
            "-shared",
            "-fno-builtin-malloc",
            "-ftls-model=initial-exec",
        ),
    ),
    "tcmalloc_percpu": Recipe(
        version="crate 0.1.14 (June 2025)",
        source="crate libtcmalloc-sys, Google's sources in it, unpatched",
        flags="-O2 -std=c++17 -DNDEBUG, pages of 8 KiB",
        make=_tcmalloc_percpu,
        package=("libtcmalloc-sys-0.1.14",),
        options=(
            "-std=c++17",
            "-O2",
            "-fPIC",
            "-DNDEBUG",
            "-DNOMINMAX",
            "-DTCMALLOC_INTERNAL_8K_PAGES",
            "-ffunction-sections",
            "-fno-omit-frame-pointer",
            "-w",
        ),
        files=("tcmalloc.map",),
        env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
        has_per_cpu_path=True,
        cannot="needs its environment, else it falls back to caches for each thread; gives memory back only when told",
    ),
    "hardened": Recipe(
        version="16.0.2026071503",
        source="crate hardened-malloc-sys, the allocator's own sources in it",
        flags="-O3 -flto, its default configuration, without -march=native",
        make=_hardened,
        package=(_HARDENED_CRATE, "config-default.conf"),
        options=_HARDENED_FLAGS,
        cannot="needs a raised vm.max_map_count for large heaps",
    ),
    "hardened_light": Recipe(
        version="16.0.2026071503",
        source="crate hardened-malloc-sys, the allocator's own sources in it",
        flags="-O3 -flto, its light configuration, without -march=native",
        make=_hardened,
        package=(_HARDENED_CRATE, "config-light.conf"),
        options=_HARDENED_FLAGS,
        cannot="needs a raised vm.max_map_count for large heaps",
    ),
    "tlsf": Recipe(
        version="rlsf 0.2.3",
        source="crate rlsf, C names by bench/peers/tlsf.rs",
        flags="-O3, fat LTO",
        make=_tlsf,
        package=("rlsf-0.2.3",),
        files=("Cargo.toml", "Cargo.lock", "tlsf.rs"),
        cannot="one lock around every call, so for one-thread and pool rows; gives no memory back; "
        "realloc to grow always copies; a fork while another thread allocates hangs the child",
    ),
    "zig": Recipe(
        version="0.17.1",
        source="Python package ziglang, C names by bench/peers/smp.zig",
        flags="-O ReleaseFast, baseline processor",
        make=_zig,
        package=("ziglang", "0.17.1", "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54"),
        options=(
            "-dynamic",
            "-O",
            "ReleaseFast",
            "-mcpu=baseline",
            "-lc",
            "-fPIC",
            "-fstrip",
            "--name",
            "zig",
        ),
        files=("smp.zig",),
        cannot="gives no slab back; finds sizes in a table that Zig programs do not need; "
        "a fork while another thread allocates may hang the child",
    ),
}
