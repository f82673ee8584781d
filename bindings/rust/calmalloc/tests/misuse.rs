//! What wrong unsafe code gets: one sentence and an end.

use std::alloc::{alloc, dealloc, Layout};
use std::process::Command;

#[global_allocator]
static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;

/// Runs one test of this file in a process of its own, where `misuse()` happens. What it said before it was stopped.
fn said_by(test: &str, misuse: fn()) -> String {
    if std::env::var_os("CALM_MISUSE").is_some() {
        misuse();
        std::process::exit(0);
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("CALM_MISUSE", "1")
        .output()
        .unwrap();
    assert!(!done.status.success(), "{test} went on");
    String::from_utf8(done.stderr).unwrap()
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

#[test]
fn a_double_free_stops_the_program() {
    let said = said_by("a_double_free_stops_the_program", || {
        // SAFETY: none; this is the mistake.
        unsafe {
            let block = alloc(layout(48));
            dealloc(block, layout(48));
            dealloc(block, layout(48));
        }
    });
    assert!(said.contains("calmalloc: double free of"), "{said}");
}

#[test]
fn a_free_with_another_size_stops_the_program() {
    let said = said_by("a_free_with_another_size_stops_the_program", || {
        // SAFETY: none; this is the mistake.
        unsafe { dealloc(alloc(layout(48)), layout(480)) }
    });
    assert!(said.contains("has 48, told 480"), "{said}");
}

#[cfg(feature = "checks")]
#[test]
fn with_checks_a_free_inside_a_block_stops_the_program() {
    let said = said_by(
        "with_checks_a_free_inside_a_block_stops_the_program",
        || {
            // SAFETY: none; this is the mistake.
            unsafe { dealloc(alloc(layout(48)).add(16), layout(48)) }
        },
    );
    assert!(
        said.contains("16 bytes inside a block of 48 bytes"),
        "{said}"
    );
}
