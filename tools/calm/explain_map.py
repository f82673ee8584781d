"""`calm explain --map`: the heap drawn unit by unit, as one HTML page: explain.html with the units in it."""
import html_page
import say

FREE, SLAB, LARGE, KEPT = range(4)


def write(subject, path):
    html_page.write(path, page(subject))


def page(subject):
    import explain
    lines = [say.clean(line) for line in explain.page(subject)]
    heap = subject.heap
    data = {"base": hex(heap.base + heap.chunk_bytes), "unitBytes": heap.unit_bytes, "runs": list(runs(heap))}
    return html_page.page("explain.html", lines[0], data, "\n".join(lines))


def runs(heap):
    """From the first unit on: [kind, units, KiB in memory], and of a slab: bytes of a block, blocks, live ones, cached
    ones."""
    unit = heap.chunk_units
    while unit < heap.units:
        slab, large = heap.slabs.get(unit), heap.large.get(unit)
        if slab is not None:
            yield [SLAB, heap.chunk_units, resident(heap, unit, heap.chunk_units), slab.block_bytes, slab.capacity,
                   slab.live_blocks(), bin(slab.cached).count("1")]
            unit += heap.chunk_units
            continue
        units = large.units if large is not None else free_units(heap, unit)
        kind = FREE if large is None else KEPT if large.is_cached else LARGE
        yield [kind, units, resident(heap, unit, units)]
        unit += units


def free_units(heap, unit):
    end = unit + 1
    while end < heap.units and end not in heap.slabs and end not in heap.large:
        end += 1
    return end - unit


def resident(heap, unit, units):
    return heap.resident(unit, units) >> 10 if heap.pages is not None else 0
