//! All tests of the binding, as one program.

test {
    _ = @import("allocator_test.zig");
    _ = @import("threads_test.zig");
    _ = @import("pools_test.zig");
    _ = @import("layouts_test.zig");
}
