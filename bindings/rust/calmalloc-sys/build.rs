//! Compiles calmalloc.c: the packaged one, or, in a checkout of the repository, one made of its sources.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Ends the build with one sentence.
fn stop(sentence: &str) -> ! {
    eprintln!("calmalloc-sys: {sentence}");
    exit(1)
}

/// In a checkout the C file is made anew whenever a source changes, so that it is never stale.
fn made_of_sources(crate_folder: &Path, out: &Path) -> PathBuf {
    let root = crate_folder.join("../../..");
    let maker = root.join("tools/amalgamate.py");
    if !maker.is_file() {
        stop("c/calmalloc.c is missing, and this is not a checkout of calmalloc");
    }
    for part in ["src", "include", "tools/amalgamate.py"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let folder = out.join("c");
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    match Command::new(&python)
        .arg(&maker)
        .arg("--root")
        .arg(&root)
        .arg("--out")
        .arg(&folder)
        .status()
    {
        Ok(status) if status.success() => folder,
        Ok(status) => stop(&format!("{} ended with {status}", maker.display())),
        Err(error) => stop(&format!(
            "a checkout needs Python, the published crate does not: {python}: {error}"
        )),
    }
}

/// Computes the worst cases of the pools' operations and writes them into the archive, for `calm_pool_bound`. Where
/// there is no Python, no objdump or no bound, that function says that nobody did.
fn stamp(crate_folder: &Path, out: &Path) {
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let packaged = crate_folder.join("bound");
    let tool = if packaged.is_dir() {
        packaged
    } else {
        crate_folder.join("../../../tools/bound")
    };
    let _ = Command::new(python)
        .arg("-B") // a build writes nothing beside its sources
        .arg(tool)
        .arg("--stamp")
        .arg(out.join("libcalmalloc.a"))
        .output();
}

fn main() {
    if variable("CARGO_CFG_TARGET_OS") != "linux"
        || variable("CARGO_CFG_TARGET_POINTER_WIDTH") != "64"
    {
        stop("calmalloc runs on 64-bit Linux only");
    }
    let crate_folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let packaged = crate_folder.join("c");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PYTHON");
    let folder = if packaged.join("calmalloc.c").is_file() {
        // Only where it is there: a file that is missing makes cargo compile everything each time.
        println!("cargo:rerun-if-changed=c");
        packaged
    } else {
        made_of_sources(&crate_folder, Path::new(&variable("OUT_DIR")))
    };
    let checks = if cfg!(feature = "assertions") {
        "2"
    } else {
        "1"
    };
    cc::Build::new()
        .file(folder.join("calmalloc.c"))
        .include(&folder)
        .std("c11")
        .define("CALM_CHECKS", checks)
        // An allocator that nobody debugs: a debug build of the program is not slowed by it.
        .opt_level(2)
        .flag_if_supported("-fvisibility=hidden")
        .flag_if_supported("-fstack-protector-strong")
        .flag_if_supported("-fstack-clash-protection")
        .compile("calmalloc");
    stamp(&crate_folder, Path::new(&variable("OUT_DIR")));
    println!("cargo:include={}", folder.display());
    println!(
        "cargo:rustc-env=CALM_HEADER={}",
        folder.join("calmalloc.h").display()
    );
}
