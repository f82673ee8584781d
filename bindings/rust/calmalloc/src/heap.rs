//! The heap as a whole: statistics, options, giving memory back.

use calmalloc_sys as sys;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::{fmt, io};

use crate::Stats;

/// The version of the allocator, "major.minor.patch".
///
/// ```
/// assert_eq!(calmalloc::version().split('.').count(), 3);
/// ```
pub fn version() -> &'static str {
    // SAFETY: the function returns a string that is part of the program.
    let words = unsafe { CStr::from_ptr(sys::calm_version()) };
    words.to_str().unwrap_or("")
}

/// What the heap holds now. Costs milliseconds on a large heap: it walks it and asks the kernel.
///
/// ```
/// let stats = calmalloc::stats();
/// assert!(stats.allocated_bytes <= stats.mapped_bytes);
/// ```
pub fn stats() -> Stats {
    let mut out = Stats::default();
    // SAFETY: the function fills the struct, whose fields a test compares with the header's.
    unsafe { sys::calm_stats_read(&mut out) };
    out
}

/// Writes the statistics to an open file, as one JSON object. Allocates nothing.
///
/// ```
/// calmalloc::write_stats_json(std::io::stdout())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_stats_json(file: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` is.
    let error = unsafe { sys::calm_stats_json(file.as_fd().as_raw_fd()) };
    as_result(error)
}

/// Gives back to the kernel every page that holds no live block, as far as it can be reached. Whether there was any.
///
/// ```
/// drop(vec![1u8; 10_000_000]);
/// calmalloc::trim();
/// ```
pub fn trim() -> bool {
    // SAFETY: the function may be called at any time.
    unsafe { sys::calm_trim() }
}

/// Sends memory of live blocks that lay untouched for `age` to swap, found by trial: what one call tries, a later one
/// sends, once `age` has passed. Zero sends all at once. What is touched comes back by itself. Returns the bytes that left
/// memory, which is none where the machine has no swap. The header says more.
///
/// ```
/// let kept = vec![1u8; 10_000_000];
/// calmalloc::page_out_cold(std::time::Duration::ZERO);
/// assert!(kept.iter().all(|&byte| byte == 1));
/// ```
pub fn page_out_cold(age: std::time::Duration) -> usize {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    // SAFETY: the function may be called at any time, and changes no bytes.
    unsafe { sys::calm_page_out_cold(age_ms) }
}

/// Says that the calling thread is about to sleep, as an event loop does before it waits: its cache is emptied, and
/// what is due goes back to the kernel.
///
/// ```
/// drop(vec![1u8; 10_000_000]);
/// calmalloc::idle();
/// ```
pub fn idle() {
    // SAFETY: the function may be called at any time.
    unsafe { sys::calm_idle() }
}

/// Has `callback` called before a request is refused for a limit, and when one passes the soft limit and giving back what
/// is free was not enough, by how many bytes; `None`: no more. It runs in the thread that asked, at the end of the request, and may free and allocate. It
/// must not take a lock that its caller may hold, nor panic: that ends the program.
///
/// ```
/// extern "C" fn shrink(bytes_over: usize) {
///     let _ = bytes_over; // drop what can be made again
/// }
/// calmalloc::on_limit(Some(shrink));
/// calmalloc::on_limit(None);
/// ```
pub fn on_limit(callback: Option<extern "C" fn(bytes_over: usize)>) {
    // SAFETY: the function may be called at any time, and the callback lives as long as the program.
    unsafe { sys::calm_on_limit(callback) }
}

/// How many bytes of the heap are readable and writable, as the kernel counts them against `RLIMIT_DATA`. One load.
///
/// ```
/// #[global_allocator]
/// static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;
///
/// let held = vec![1u8; 10_000_000];
/// assert!(calmalloc::committed() >= held.len());
/// ```
pub fn committed() -> usize {
    // SAFETY: the function may be called at any time.
    unsafe { sys::calm_committed() }
}

/// How many bytes blocks and dirty free memory take, which the options `limit_mb` and `soft_limit_mb` bound.
///
/// ```
/// #[global_allocator]
/// static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;
///
/// let held = vec![1u8; 10_000_000];
/// assert!(calmalloc::charged() >= held.len());
/// ```
pub fn charged() -> usize {
    // SAFETY: the function may be called at any time.
    unsafe { sys::calm_charged() }
}

/// Why an option cannot be read or set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionError {
    /// No option has this name.
    Unknown,
    /// The value is out of the option's range.
    BadValue,
    /// The option is fixed once the heap is in use.
    Fixed,
}

impl fmt::Display for OptionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "no option has this name",
            Self::BadValue => "the value is out of the option's range",
            Self::Fixed => "the option is fixed once the heap is in use",
        })
    }
}

impl std::error::Error for OptionError {}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;

fn option_result(error: i32) -> Result<(), OptionError> {
    match error {
        0 => Ok(()),
        ENOENT => Err(OptionError::Unknown),
        EPERM => Err(OptionError::Fixed),
        _ => Err(OptionError::BadValue),
    }
}

/// Reads an option by its name in `CALM_OPTIONS`. Choices are numbers, from 0 in the order they are listed.
///
/// ```
/// assert_eq!(calmalloc::option("no such option"), Err(calmalloc::OptionError::Unknown));
/// assert!(calmalloc::option("purge_delay_ms").is_ok());
/// ```
pub fn option(name: &str) -> Result<u64, OptionError> {
    let name = CString::new(name).map_err(|_| OptionError::Unknown)?;
    let mut value = 0;
    // SAFETY: the name ends in a NUL, and the value has room for the answer.
    option_result(unsafe { sys::calm_option_get(name.as_ptr(), &mut value) })?;
    Ok(value)
}

/// Sets an option that may change while the heap is in use.
///
/// ```
/// calmalloc::set_option("purge_delay_ms", 100)?;
/// assert_eq!(calmalloc::option("purge_delay_ms"), Ok(100));
/// # Ok::<(), calmalloc::OptionError>(())
/// ```
pub fn set_option(name: &str, value: u64) -> Result<(), OptionError> {
    let name = CString::new(name).map_err(|_| OptionError::Unknown)?;
    // SAFETY: the name ends in a NUL.
    option_result(unsafe { sys::calm_option_set(name.as_ptr(), value) })
}

/// The C functions return 0 or a number of `errno`.
pub(crate) fn as_result(error: i32) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}
