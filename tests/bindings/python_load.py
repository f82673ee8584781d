"""Loads of numerical Python for wheel_test.py: python_load.py numpy|pandas|tensors|torch. Prints results, which are
whole numbers or rounded, so that runs can be compared; checks what can be known beforehand."""
import hashlib
import queue
import sys
import threading

import numpy


def digest(array):
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def load_numpy():
    """Arrays of many sizes, sorted, transformed, solved and freed."""
    random = numpy.random.default_rng(7)
    kept, total = [], 0
    for turn in range(4000):
        array = random.integers(0, 1 << 30, size=int(random.integers(1, 3000)))
        array.sort()
        assert (numpy.diff(array) >= 0).all()
        total += int(array[len(array) // 2])
        kept.append(array[::2].copy())
        if turn % 3 == 0:
            kept.pop(int(random.integers(0, len(kept))))
    matrix = random.standard_normal((300, 300)) + 300 * numpy.eye(300)
    assert numpy.allclose(matrix @ numpy.linalg.inv(matrix), numpy.eye(300))
    signal = random.standard_normal(1 << 16)
    assert numpy.allclose(numpy.fft.irfft(numpy.fft.rfft(signal)), signal)
    strings = numpy.array([str(n) * (n % 7) for n in range(20_000)], dtype=object)
    print(total, len(kept), digest(numpy.concatenate(kept)), sum(map(len, strings)))


def load_pandas():
    """A table of numbers and words: grouped, joined, sorted, written as CSV and read again."""
    import io
    import pandas
    random = numpy.random.default_rng(7)
    rows = 100_000
    words = ["w%d" % (n * 7919 % 5003) for n in range(rows)]
    table = pandas.DataFrame({"key": random.integers(0, 1000, rows), "value": random.integers(0, 1 << 20, rows),
                              "word": words})
    sums = table.groupby("key")["value"].sum()
    assert int(sums.sum()) == int(table["value"].sum())
    joined = table.merge(sums.rename("all"), on="key").sort_values(["word", "value", "key"])
    text = joined.head(20_000).to_csv(index=False)
    again = pandas.read_csv(io.StringIO(text))
    assert again["value"].tolist() == joined["value"].head(20_000).tolist()
    wide = table.pivot_table(index="key", columns=table["value"] % 5, values="value", aggfunc="count")
    assert int(wide.fillna(0).to_numpy().sum()) == rows
    print(len(joined), int(joined["all"].max()), table["word"].nunique(), hashlib.sha256(text.encode()).hexdigest())


def load_tensors():
    """As a framework of tensors trains: threads make batches, one thread learns from them and drops them, so that
    another thread frees nearly every large array than asked for it. Two layers learn what is known: a linear map."""
    batches = queue.Queue(maxsize=8)
    truth = numpy.random.default_rng(1).standard_normal((64, 8))

    def produce(seed):
        random = numpy.random.default_rng(seed)
        for _ in range(60):
            inputs = random.standard_normal((256, 64))
            batches.put((inputs, inputs @ truth))
        batches.put(None)

    threads = [threading.Thread(target=produce, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    random = numpy.random.default_rng(2)
    first, second = random.standard_normal((64, 64)) / 8, random.standard_normal((64, 8)) / 8
    running, seen, loss = len(threads), 0, None
    while running:
        batch = batches.get()
        if batch is None:
            running -= 1
            continue
        inputs, wanted = batch
        hidden = inputs @ first
        wrong = hidden @ second - wanted
        loss = float((wrong * wrong).mean())
        slope = wrong * (2 / len(inputs))
        first_slope = inputs.T @ (slope @ second.T)
        first, second = first - 0.02 * first_slope, second - 0.02 * hidden.T @ slope
        seen += len(inputs)
    for thread in threads:
        thread.join()
    assert loss < 1e-6, loss
    assert numpy.abs(first @ second - truth).max() < 1e-4
    print(seen, "samples taught a map whose sum is", round(float((first @ second).sum()), 4))


def load_torch():
    """PyTorch itself: batches come from processes and from threads, sentences have many lengths, three small networks
    learn what is known, and one is written to memory and read again."""
    import io
    import torch
    torch.manual_seed(7)
    torch.set_num_threads(2)

    # A linear map, taught by batches that two other processes make.
    truth = torch.randn(32, 4)
    inputs = torch.randn(4096, 32)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs @ truth), batch_size=64,
                                         shuffle=True, num_workers=2)
    learner = torch.nn.Linear(32, 4, bias=False)
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.05)
    for _ in range(6):
        for some, wanted in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(learner(some), wanted).backward()
            optimizer.step()
    wrong = float((learner.weight.T - truth).abs().max().detach())
    assert wrong < 0.05, wrong

    # Pictures: is the bright square on the left? Threads make them, this one learns from them and drops them.
    batches = queue.Queue(maxsize=8)

    def produce(seed):
        random = torch.Generator().manual_seed(seed)
        for _ in range(32):
            pictures = torch.rand(32, 1, 24, 24, generator=random)
            on_left = torch.rand(32, generator=random) < 0.5
            pictures[on_left, :, 8:16, :8] += 2
            pictures[~on_left, :, 8:16, 16:] += 2
            batches.put((pictures, on_left.long()))
        batches.put(None)

    threads = [threading.Thread(target=produce, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                  torch.nn.Linear(8 * 11 * 11, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    running, right, seen = len(threads), 0, 0
    while running:
        batch = batches.get()
        if batch is None:
            running -= 1
            continue
        said = network(batch[0])
        if seen >= 64 * 32:
            right += int((said.argmax(1) == batch[1]).sum())
        seen += len(batch[1])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(said, batch[1]).backward()
        optimizer.step()
    for thread in threads:
        thread.join()
    assert right == seen - 64 * 32, (right, seen)

    # Sentences of many lengths through an encoder, forwards and backwards.
    layer = torch.nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, dropout=0, batch_first=True)
    words = torch.nn.Embedding(500, 32)
    for length in range(1, 60, 3):
        layer(words(torch.randint(0, 500, (4, length)))).square().mean().backward()
    assert all(torch.isfinite(part.grad).all() for part in (*layer.parameters(), *words.parameters()))

    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    for name, part in torch.load(file).items():
        assert torch.equal(part, layer.state_dict()[name])
    print(seen, "pictures,", right, "named rightly after the first; a file of", len(file.getvalue()), "bytes;",
          round(float(truth.sum()), 3))


if __name__ == "__main__":
    {"numpy": load_numpy, "pandas": load_pandas, "tensors": load_tensors, "torch": load_torch}[sys.argv[1]]()
