//! The profile names who asked, although the program asks through Rust's own functions.
#![cfg(feature = "profile")]

use calmalloc::profile::{write, Format, Profile};
use std::io::{Read, Seek, SeekFrom};

#[global_allocator]
static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;

const BLOCKS: usize = 20_000;
const BYTES: usize = 1000;

#[inline(never)]
#[allow(clippy::vec_box)] // one request each
fn make() -> Vec<Box<[u8; BYTES]>> {
    (0..BLOCKS).map(|_| Box::new([1; BYTES])).collect()
}

fn file() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("calmalloc-profile-{}", std::process::id()));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn written(format: Format) -> Vec<u8> {
    let mut file = file();
    write(&file, format).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// One test: there is one heap, and sampling is on or off for all of it.
#[test]
fn sampling_sees_what_is_held_and_ends_with_the_value() {
    let profile = Profile::start_with_seed(4096, 1).unwrap();
    assert_eq!(
        Profile::start(4096).unwrap_err().kind(),
        std::io::ErrorKind::ResourceBusy
    );
    assert_eq!(calmalloc::stats().profile_on, 1);
    let held = make();
    let text = String::from_utf8(written(Format::Collapsed)).unwrap();
    let bytes: usize = text
        .lines()
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum();
    let truth = BLOCKS * BYTES;
    assert!(
        (truth * 9 / 10..truth * 12 / 10).contains(&bytes),
        "{bytes} of {truth}"
    );
    assert_eq!(written(Format::Pprof)[..2], [0x1f, 0x8b], "gzip's mark");
    assert!(written(Format::HeapV2).starts_with(b"heap_v2/"));
    drop(profile);
    assert_eq!(calmalloc::stats().profile_on, 0);
    let samples = calmalloc::stats().profile_samples;
    let more = make();
    assert_eq!(calmalloc::stats().profile_samples, samples);
    assert_eq!(held.len() + more.len(), 2 * BLOCKS);
}
