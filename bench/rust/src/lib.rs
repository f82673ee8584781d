//! What the loads share: the allocator that the program was built with, and the line that says what it needed.

use std::time::Instant;

#[cfg(feature = "floor")]
mod floor;

#[cfg(feature = "calm")]
#[global_allocator]
static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOC: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "floor")]
#[global_allocator]
static ALLOC: floor::Floor = floor::Floor::new();

/// The allocator by name; without a feature it is the C library's.
pub const ALLOCATOR: &str = if cfg!(feature = "calm") {
    "calm"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "floor") {
    "floor"
} else {
    "glibc"
};

/// Numbers that look random and are the same in every run (xorshift64*).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub fn word(&mut self, most: u64) -> String {
        let length = 1 + self.below(most);
        (0..length)
            .map(|_| char::from(b'a' + self.below(26) as u8))
            .collect()
    }
}

/// A sum over bytes that depends on their order (FNV-1a).
pub fn checksum(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    })
}

/// A figure from /proc/self/status; those of memory are in KiB.
fn status_number(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// Seconds of processor time that the process has used: user and system, in clock ticks of 10 ms.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or("");
    let ticks = |at: usize| -> u64 {
        let word = behind_name.split_whitespace().nth(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    (ticks(11) + ticks(12)) as f64 / 100.0
}

/// The first argument, or `usual`: how often the load is done.
pub fn rounds(usual: u64) -> u64 {
    std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(usual)
}

/// Does the work and prints a line of JSON: time, processor time, peak memory, and a checksum of what came out.
pub fn report(name: &str, work: impl FnOnce() -> u64) {
    let start = Instant::now();
    let check = work();
    let wall_s = start.elapsed().as_secs_f64();
    #[cfg(feature = "calm")]
    {
        let stats = calmalloc::stats();
        assert!(stats.allocated_bytes > 0, "calmalloc serves nothing");
        assert_eq!(stats.misuses + stats.foreign_frees, 0);
    }
    #[cfg(feature = "floor")]
    assert_eq!(status_number("Threads:"), 1, "floor is for one thread");
    println!(
        "{{\"load\": \"{name}\", \"allocator\": \"{ALLOCATOR}\", \"wall_s\": {wall_s:.3}, \"cpu_s\": {:.2}, \
         \"peak_rss_kib\": {}, \"check\": \"{check:016x}\"}}",
        cpu_s(),
        status_number("VmHWM:")
    );
}
