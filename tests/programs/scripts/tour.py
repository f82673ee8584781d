"""A walk through CPython that leaves few allocator paths untried; prints digests, so that one wrong byte shows."""

import array
import collections
import ctypes
import decimal
import fractions
import gc
import hashlib
import heapq
import io
import itertools
import json
import mmap
import multiprocessing
import os
import pickle
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import weakref
import zlib

rng = random.Random(20240607)


def show(name, *facts):
    text = " ".join(fact if isinstance(fact, str) else repr(fact) for fact in facts)
    print(f"{name}: {text if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()}", flush=True)


def grown_buffers():
    """A bytearray grows by realloc: every byte that was there must still be there, whatever the sizes."""
    digest = hashlib.sha256()
    for step in (1, 7, 8, 16, 24, 120, 4000, 70000, 900001):
        buffer = bytearray()
        for turn in range(60):
            buffer += bytes((turn + i) & 255 for i in range(min(step, 251))) * max(1, step // 251)
            digest.update(zlib.crc32(buffer).to_bytes(4, "little"))
        while len(buffer) > 10:
            del buffer[len(buffer) // 2 :]
            digest.update(zlib.crc32(buffer).to_bytes(4, "little"))
    return digest.hexdigest()


def cleared_blocks():
    """Memory from calloc reads as zero to its last byte, above all where dirty blocks of that size were freed."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.calloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    wrong = 0
    for size in [*range(1, 300), *range(300, 40000, 613), 65536, 100000, 1 << 20, (1 << 21) + 5, 40 << 20]:
        turns = 1 if size > 1 << 20 else 4
        dirty = [libc.malloc(ctypes.c_size_t(size)) for _ in range(turns)]
        for block in dirty:
            ctypes.memset(block, 0xA5, size)
            libc.free(block)
        clean = [libc.calloc(ctypes.c_size_t(1), ctypes.c_size_t(size)) for _ in range(turns)]
        for block in clean:
            wrong += ctypes.string_at(block, size).count(0) != size
            ctypes.memset(block, 0xA5, size)
            libc.free(block)
        wrong += bytes(size).count(0) != size  # CPython's own use of calloc
    return wrong


def dictionaries():
    table = {}
    for i in range(120000):
        table[f"key {i * 7919 % 120011}"] = [i, str(i) * (i % 9)]
        if i % 3 == 0:
            table.pop(f"key {rng.randrange(120011)}", None)
    order = sorted(table.items(), key=lambda item: (item[1][1], item[0]))
    text = json.dumps(dict(order[:30000]), indent=1)
    assert json.loads(text) == dict(order[:30000])
    copy = pickle.loads(pickle.dumps(table, protocol=4))
    assert copy == table
    return len(table), hashlib.sha256(text.encode()).hexdigest()


def numbers():
    n = 3**20011 // 7**77
    decimal.getcontext().prec = 600
    pi = fractions.Fraction(0)
    for k in range(60):
        below = 512 * k**4 + 1024 * k**3 + 712 * k * k + 194 * k + 15
        pi += fractions.Fraction(1, 16**k) * fractions.Fraction(120 * k * k + 151 * k + 47, below)
    return hex(n % 10**300), str(decimal.Decimal(2).sqrt())[-20:], str(pi.numerator)[-30:]


def text():
    words = [bytes(rng.choices(b"abcdefgh ", k=rng.randrange(1, 40))).decode() for _ in range(20000)]
    page = "\n".join(words)
    found = collections.Counter(re.findall(r"(?:a|b)+[c-e]{1,3}", page))
    wide = page.replace("a", "\u00e9").replace("b", "\u4e2d").replace("c", "\U0001f600")
    packed = zlib.compress(wide.encode("utf-16"), 9)
    assert zlib.decompress(packed).decode("utf-16") == wide
    return sum(found.values()), sorted(found)[:5], hashlib.sha256(packed).hexdigest()


def cycles():
    class Node:
        def __init__(self, left):
            self.left, self.me, self.payload = left, self, "x" * rng.randrange(200)

    gone = []
    for _ in range(300):
        node = None
        for _ in range(100):
            node = Node(node)
        weakref.finalize(node, gone.append, 1)
    del node
    gc.collect()
    return len(gone)


def threads():
    """Producers allocate, consumers free: every block crosses threads."""
    pipe, sums = queue.Queue(200), []

    def produce(seed):
        mine = random.Random(seed)
        for i in range(3000):
            pipe.put([bytes([i & 255]) * mine.randrange(1, 3000), {"i": i}])
        pipe.put(None)

    def consume():
        total = 0
        while (item := pipe.get()) is not None:
            total += len(item[0]) + sum(item[0][:1]) + item[1]["i"]
        sums.append(total)

    workers = [threading.Thread(target=produce, args=(seed,)) for seed in range(4)]
    workers += [threading.Thread(target=consume) for _ in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    for wave in range(20):
        brief = [threading.Thread(target=lambda: [str(i) * 50 for i in range(300)]) for _ in range(20)]
        [worker.start() for worker in brief]
        [worker.join() for worker in brief]
    return sum(sums)


def square_all(numbers_):
    return [str(n * n) for n in numbers_]


def processes():
    """Fork from a process with a full heap and running threads, exec, and pools."""
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            [bytearray(n) for n in range(0, 5000, 37)]

    churners = [threading.Thread(target=churn) for _ in range(2)]
    [churner.start() for churner in churners]
    codes = []
    for i in range(20):
        pid = os.fork()
        if pid == 0:
            lists = [[str(n)] * 10 for n in range(5000)]
            os._exit(len(lists) % 97 + (i == 7))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    [churner.join() for churner in churners]
    with multiprocessing.get_context("fork").Pool(3) as pool:
        squares = pool.map(square_all, [range(k, k + 500) for k in range(0, 20000, 500)])
    echo = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1], end='')"],
        input="abc" * 70000,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return codes, sum(map(len, squares)), zlib.crc32(echo.encode())


def foreign():
    """The C heap seen through ctypes: libc's own functions must agree with the library's on every pointer."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.malloc.restype = libc.calloc.restype = libc.realloc.restype = libc.strdup.restype = ctypes.c_void_p
    libc.getline.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    libc.fdopen.restype = ctypes.c_void_p
    libc.realpath.restype = ctypes.c_void_p
    for size in (0, 1, 100, 5000, 1 << 22):
        block = libc.malloc(ctypes.c_size_t(size))
        ctypes.memset(block, 0x77, size)
        block = libc.realloc(ctypes.c_void_p(block), ctypes.c_size_t(size * 2 + 1))
        assert ctypes.string_at(block, size) == b"\x77" * size
        libc.free(ctypes.c_void_p(block))
    copies = [libc.strdup(b"word " * n) for n in range(500)]
    lengths = sum(len(ctypes.string_at(copy)) for copy in copies)
    [libc.free(ctypes.c_void_p(copy)) for copy in copies]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"line of some length\n" * 10 + b"y" * 30000 + b"\n")
        file.flush()
        stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"r"))
        libc.rewind(stream)
        line, room, longest = ctypes.c_void_p(), ctypes.c_size_t(), 0
        while (got := libc.getline(ctypes.byref(line), ctypes.byref(room), stream)) > 0:
            longest = max(longest, got)
        libc.free(line)
        libc.fclose(stream)
    path = libc.realpath(b"/usr/../usr/bin/.", None)
    where = ctypes.string_at(path)
    libc.free(ctypes.c_void_p(path))
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    values = (ctypes.c_int * 3000)(*(rng.randrange(10**6) for _ in range(3000)))
    libc.qsort(values, 3000, 4, compare(lambda a, b: a[0] - b[0]))
    return lengths, longest, where, list(values) == sorted(values)


def containers():
    heap = []
    for i in range(50000):
        heapq.heappush(heap, (rng.random(), i))
        if i % 5 == 4:
            heapq.heappop(heap)
    ring = collections.deque(maxlen=1000)
    ring.extend(itertools.accumulate(range(20000)))
    cells = array.array("d", (rng.random() for _ in range(30000)))
    cells.extend(cells)
    stream = io.BytesIO()
    [stream.write(bytes([i & 255]) * i) for i in range(2000)]
    with mmap.mmap(-1, 1 << 20) as shared:
        shared[:26] = b"abcdefghijklmnopqrstuvwxyz"
        letters = bytes(shared[5:9])
    return heap[0][1], sum(ring), zlib.crc32(cells.tobytes()), zlib.crc32(stream.getvalue()), letters


for section in (
    grown_buffers,
    cleared_blocks,
    dictionaries,
    numbers,
    text,
    cycles,
    threads,
    processes,
    foreign,
    containers,
):
    show(section.__name__, section())
