//! Holds memory in two places and writes who holds how much, for a flame graph:
//! `cargo run --release --features profile --example who_holds_the_heap > stacks`

use calmalloc::profile::{Format, Profile};
use std::collections::HashMap;

#[global_allocator]
static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;

#[inline(never)]
fn names() -> Vec<String> {
    (0..20_000).map(|n| format!("name {n}")).collect()
}

#[inline(never)]
fn index(names: &[String]) -> HashMap<&str, usize> {
    names
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), at))
        .collect()
}

fn main() -> std::io::Result<()> {
    let profile = Profile::start(4096)?;
    let names = names();
    let index = index(&names);
    profile.write(std::io::stdout(), Format::Collapsed)?;
    assert_eq!(index["name 7"], 7);
    Ok(())
}
