// A walk through the JVM: its own heap is not malloc's, but the compiler threads, classes, zip, direct buffers are.
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Tour {
    static void show(String name, Object... facts) {
        System.out.println(name + ": " + Arrays.stream(facts).map(String::valueOf).collect(Collectors.joining(" ")));
    }

    static byte[] packed(byte[] data) throws Exception {
        var out = new ByteArrayOutputStream();
        try (var gzip = new GZIPOutputStream(out)) {
            gzip.write(data);
        }
        return new GZIPInputStream(new java.io.ByteArrayInputStream(out.toByteArray())).readAllBytes();
    }

    public static void main(String[] arguments) throws Exception {
        var random = new Random(7);
        var map = new TreeMap<String, List<Integer>>();
        for (int i = 0; i < 300_000; i++)
            map.computeIfAbsent("key" + random.nextInt(20_000), key -> new ArrayList<>()).add(i);
        show("map", map.size(), map.firstEntry(), map.values().stream().mapToInt(List::size).max().getAsInt());

        var direct = new ArrayList<ByteBuffer>();
        long sum = 0;
        for (int i = 0; i < 3000; i++) {
            var buffer = ByteBuffer.allocateDirect(1 + random.nextInt(60_000));
            for (int at = 0; at < buffer.capacity(); at += 997)
                sum += buffer.get(at);
            buffer.put(0, (byte) i);
            direct.add(buffer);
            if (i % 500 == 499)
                direct.clear();
        }
        show("direct", sum);

        var data = new byte[3 << 20];
        random.nextBytes(data);
        Arrays.fill(data, 1 << 20, 2 << 20, (byte) 9);
        var pool = Executors.newFixedThreadPool(6);
        var futures = new ArrayList<Future<String>>();
        for (int i = 0; i < 24; i++) {
            int from = i * 1000;
            futures.add(pool.submit(() -> {
                var part = packed(Arrays.copyOfRange(data, from, data.length));
                var digest = MessageDigest.getInstance("SHA-256").digest(part);
                return HexFormat.of().formatHex(digest, 0, 4);
            }));
        }
        for (var future : futures)
            show("packed", future.get());
        pool.shutdown();
        for (int i = 0; i < 300; i++) {
            var thread = new Thread(() -> new Inflater().end());
            thread.start();
            thread.join();
        }
        Files.write(Path.of("data.bin"), data);
        show("file", Arrays.equals(Files.readAllBytes(Path.of("data.bin")), data));
        var child = new ProcessBuilder("tr", "a-z", "A-Z").start();
        child.getOutputStream().write("quiet".getBytes());
        child.getOutputStream().close();
        show("child", new String(child.getInputStream().readAllBytes()), child.waitFor());
        show("primes", IntStream.range(2, 200_000).parallel()
            .filter(n -> IntStream.rangeClosed(2, (int) Math.sqrt(n)).noneMatch(d -> n % d == 0)).count());
    }
}
