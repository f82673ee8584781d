//! mpsc SEED PRODUCERS MILLISECONDS: PRODUCERS threads make strings of 7 to 35 bytes and put them into one ring of 16
//! places; one thread takes them out, checks and frees them, until the time is up. Who finds the ring full or empty
//! yields. What is resident must stay flat; it does not measure speed.

const std = @import("std");
const common = @import("common.zig");
const Text = common.Text(7, 35);
const gpa = common.gpa;

pub const arguments = 3;
const places_count = 16;
const producers_max = 64;

/// `turn` says whose move it is: ticket n may fill at turn n, be taken at n + 1, refilled at n + 16.
const Place = struct {
    turn: std.atomic.Value(u64) align(128),
    text: []u8,
    number: u64,
    producer: usize,
};

const Ring = struct {
    seed: u64,
    producers: u64,
    places: [places_count]Place,
    next_ticket: std.atomic.Value(u64) align(128) = .init(0),
    is_over: std.atomic.Value(bool) align(128) = .init(false),
    left: std.atomic.Value(u64),
    made: [producers_max]u64 = @splat(0),
    taken: [producers_max]u64 = @splat(0),

    fn numberOf(self: *const Ring, producer: usize, count: u64) u64 {
        return self.seed + count * self.producers + producer;
    }

    fn produce(self: *Ring, producer: usize) void {
        var count: u64 = 0;
        while (!self.is_over.load(.monotonic)) : (count += 1) {
            const number = self.numberOf(producer, count);
            const text = Text.make(number);
            const ticket = self.next_ticket.fetchAdd(1, .seq_cst);
            const place = &self.places[ticket % places_count];
            while (place.turn.load(.acquire) != ticket) std.Thread.yield() catch {};
            place.text = text;
            place.number = number;
            place.producer = producer;
            place.turn.store(ticket + 1, .release);
        }
        self.made[producer] = count;
        _ = self.left.fetchSub(1, .seq_cst);
    }

    fn empty(self: *Ring, place: *Place, ticket: u64) void {
        const producer = place.producer;
        if (place.number != self.numberOf(producer, self.taken[producer]))
            common.fail("a string of producer {d} is missing or out of order", .{producer});
        self.taken[producer] += 1;
        _ = Text.verify(place.text, place.number);
        gpa.free(place.text);
        place.turn.store(ticket + places_count, .release);
    }

    fn consume(self: *Ring, readings: *common.Readings, step: f64) void {
        const start = common.seconds();
        var ticket: u64 = 0;
        while (true) {
            const place = &self.places[ticket % places_count];
            const are_done = self.left.load(.seq_cst) == 0;
            if (place.turn.load(.acquire) == ticket + 1) {
                self.empty(place, ticket);
                ticket += 1;
            } else if (are_done) return else std.Thread.yield() catch {};
            if (ticket % 1024 != 0 or readings.taken == readings.values.len) continue;
            if (common.seconds() - start < step * @as(f64, @floatFromInt(readings.taken + 1))) continue;
            readings.add();
            if (readings.taken == readings.values.len) self.is_over.store(true, .seq_cst);
        }
    }
};

pub fn run(numbers: [arguments]u64) !void {
    const seed, const producers, const run_ms = numbers;
    if (producers == 0 or producers > producers_max) common.fail("between 1 and {d} producers", .{producers_max});
    var ring: Ring = .{ .seed = seed, .producers = producers, .places = undefined, .left = .init(producers) };
    for (&ring.places, 0..) |*place, i| place.turn = .init(i);
    var readings: common.Readings = .{};
    const step = @as(f64, @floatFromInt(run_ms)) / 1000 / readings.values.len;
    const start = common.seconds();
    var threads: [producers_max]std.Thread = undefined;
    for (threads[0..producers], 0..) |*thread, i| thread.* = try std.Thread.spawn(.{}, Ring.produce, .{ &ring, i });
    ring.consume(&readings, step);
    for (threads[0..producers]) |thread| thread.join();
    var strings: u64 = 0;
    for (ring.made[0..producers], ring.taken[0..producers]) |made, taken| {
        if (made != taken) common.fail("{d} strings were made, {d} arrived", .{ made, taken });
        strings += taken;
    }
    common.print(
        "{{\"seconds\": {d:.6}, \"check\": \"{x:0>16}\", \"resident_max_kib\": {d}, \"resident_drift_kib\": {d}, " ++
            "\"strings\": {d}}}\n",
        .{ common.seconds() - start, seed * producers, readings.most(), readings.drift(), strings },
    );
}
