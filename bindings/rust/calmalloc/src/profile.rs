//! Who holds the heap: a sample of the requests, each with its stack of calls.
//!
//! ```
//! use calmalloc::profile::{Format, Profile};
//!
//! #[global_allocator]
//! static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;
//!
//! fn main() -> std::io::Result<()> {
//!     let profile = Profile::start(4096)?;
//!     let held: Vec<Vec<u8>> = (0..1000).map(|_| vec![0; 1000]).collect();
//!     let mut file = std::fs::File::create(std::env::temp_dir().join("heap.collapsed"))?;
//!     profile.write(&mut file, Format::Collapsed)?;
//!     drop(profile); // samples no more
//!     assert_eq!(held.len(), 1000);
//!     Ok(())
//! }
//! ```

use crate::heap::as_result;
use calmalloc_sys as sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How a profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Compressed; what Go's pprof reads.
    Pprof,
    /// gperftools' text.
    HeapV2,
    /// A line a stack, for flame graphs.
    Collapsed,
}

/// Sampling that is on for as long as this lives. There is one heap, so there is at most one.
///
/// What was sampled stays known after the end: blocks until they are freed, totals for ever. A later start goes on.
#[derive(Debug)]
#[must_use = "sampling ends when this is dropped"]
pub struct Profile {
    _only: (),
}

impl Profile {
    /// Samples one in `bytes_a_sample` allocated bytes on average; 0 is 512 KiB. Costs some 20 ns a request while it is
    /// on, and microseconds a sample.
    ///
    /// Fails with `ResourceBusy` when sampling is on already, `InvalidInput` above 256 GiB, `OutOfMemory`.
    pub fn start(bytes_a_sample: usize) -> io::Result<Self> {
        Self::start_with_seed(bytes_a_sample, 0)
    }

    /// As [`Profile::start`]; the same `seed` but 0 draws the same samples for the same requests
    /// of a process with one thread, from its start on.
    pub fn start_with_seed(bytes_a_sample: usize, seed: u64) -> io::Result<Self> {
        // SAFETY: the function may be called at any time.
        as_result(unsafe { sys::calm_profile_start(bytes_a_sample, seed) })?;
        Ok(Self { _only: () })
    }

    /// Writes what was sampled so far to an open file. Allocates nothing.
    pub fn write(&self, file: impl AsFd, format: Format) -> io::Result<()> {
        write(file, format)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // SAFETY: the function may be called at any time.
        unsafe { sys::calm_profile_stop() }
    }
}

/// Writes what was sampled by any start so far, whether sampling is on or not.
pub fn write(file: impl AsFd, format: Format) -> io::Result<()> {
    let name = match format {
        Format::Pprof => c"pprof",
        Format::HeapV2 => c"heap_v2",
        Format::Collapsed => c"collapsed",
    };
    // SAFETY: the descriptor is open as long as `file` is, and the name ends in a NUL.
    as_result(unsafe { sys::calm_profile_dump(file.as_fd().as_raw_fd(), name.as_ptr()) })
}
