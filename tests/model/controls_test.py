"""Shows that the explorer catches mistakes in the shipped code: each mutant of a source must fail its model.

    controls_test.py SOURCE_DIR BUILD_SHIM_DIR CC
"""
import os
import re
import subprocess
import sys
import tempfile

# (model, source, text, replacement, words of the complaint)
MUTANTS = [
    ("batch", "src/core/batch.c", "(word >> (NUMBER_BITS + COUNT_BITS)) + 1;", "(word >> (NUMBER_BITS + COUNT_BITS));",
     "twice|two places|lost|length"),
    ("batch", "src/core/batch.c", "if (compare_swap(&stack->top, &top, word_after(top, next, count - (count > 0)), "
     "ACQUIRE, RELAXED))", "store(&stack->top, word_after(top, next, count - (count > 0)), RELAXED);",
     "twice|two places|lost|length"),
    ("batch", "src/core/batch.c",
     "return compare_swap(&numbers_used, &used, used + 1, RELAXED, RELAXED) ? used + 1 : 0;",
     "store(&numbers_used, used + 1, RELAXED); return used + 1;", "twice|two places|lost|length"),
    ("shards", "src/core/depot_shards.c", "compare_swap(&depot->others, &others, made, RELEASE, RELAXED);",
     "(void)others; store(&depot->others, made, RELEASE);", "block was lost|batch was lost"),
    ("shards", "src/core/depot_shards.c", "for (unsigned i = 0; i < shard_count && count == 0; i++)",
     "for (unsigned i = 0; i < 1 && count == 0; i++)", "block was lost|found nothing"),
    ("shards", "src/core/depot_shards.c", "made[i].batches.shard = (uint32_t)i + 1;",
     "made[i].batches.shard = (uint32_t)i;", "D3"),
    ("shards", "src/core/batch.c", "number = pop(&unused[shard_after(stack->shard, i)].list);", "break;",
     "batch could be given"),
    ("table", "src/core/depot_table.c", "store(&depot_table[top->bin], top, RELEASE); /* M2", "(void)0; /* M2",
     "two depots"),
    ("table", "src/core/depot_table.c", "if (compare_swap(&depot_list, &top, made, ACQ_REL, RELAXED)) break;",
     "store(&depot_list, made, RELEASE); break;", "two depots|not in the list"),
    ("table", "src/core/depot_table.c", "note_row(bin);", "", "is not searched"),
    ("deferred", "src/core/deferred.c", "exchange(&slab->has_deferred, 0, ACQ_REL);", "", "lost"),
    ("deferred", "src/core/deferred.c", "if (exchange(&slab->has_deferred, 1, ACQ_REL) == 0)",
     "if (load(&slab->has_deferred, RELAXED) == 0 && (store(&slab->has_deferred, 1, RELEASE), true))",
     "twice|too many steps"),
    ("deferred", "src/core/deferred.c", "wanted & fetch_and(&slab->deferred[word], ~wanted, ACQUIRE);",
     "wanted; store(&slab->deferred[word], seen & ~wanted, RELAXED);", "two hands|lost"),
    ("deferred", "src/core/deferred.c", "while (taken < want && (seen", "if (taken < want && (seen", "lost"),
    ("deferred", "src/core/deferred.c", "if (taken == want)", "if (false)", "lost"),
    ("deferred", "src/core/deferred.c", "fetch_add(&deferred->blocks, 1, RELAXED);", "", "count is not"),
    ("large_cache", "src/core/large_cache.c", "== 0 && compare_swap(&set->slots[i], &word, 0, ACQUIRE, RELAXED)",
     "== 0 && (store(&set->slots[i], 0, RELAXED), true)", "two hands|lost"),
    ("large_cache", "src/core/large_cache.c", "compare_swap(&set->slots[i], &empty, word, RELEASE, RELAXED))",
     "(store(&set->slots[i], word, SEQ_CST), empty == 0))", "lost"),
    ("large_cache", "src/core/large_cache.c", "uint64_t other = exchange(&set->slots[hand % SLOTS], word, ACQ_REL);",
     "uint64_t other = load(&set->slots[hand % SLOTS], RELAXED); "
     "store(&set->slots[hand % SLOTS], word, RELEASE);", "two|lost"),
    ("large_cache", "src/core/large_cache.c",
     "is_due && compare_swap(&set->slots[i], &word, 0, ACQUIRE, RELAXED)",
     "is_due && (store(&set->slots[i], 0, RELAXED), true)", "two|lost"),
    ("large_cache", "src/core/large_cache.c", "count_out(index, word); return word;", "return word;", "not counted"),
    ("pending", "src/base/tagged_stack.h", "((before >> TAGGED_NUMBER_BITS) + 1) << TAGGED_NUMBER_BITS",
     "(before >> TAGGED_NUMBER_BITS) << TAGGED_NUMBER_BITS", "two hands|lost"),
    ("pending", "src/base/tagged_stack.h", "if (compare_swap(&stack->top, &top, tagged_word(top, below), ACQUIRE, "
     "ACQUIRE))", "store(&stack->top, tagged_word(top, below), RELAXED);", "two hands|lost"),
    ("pending", "src/mem/pending.c", "push(owner, state, unit, all);",
     "tagged_push(&stacks[i], (uint32_t)unit, link_of);", "lost"),
    ("pending", "src/mem/pending.c", "if (has_pending(owner, state)) fetch_or(word, bit, RELEASE);", "", "lost"),
    ("pending", "src/mem/pending.c", "tag->units += behind->units;", "", "lost|not joined"),
    ("pending", "src/mem/pending.c", "push(owner, tag->previous, unit, tag->units);",
     "if (next != 0) push(owner, tag->previous, unit, tag->units);", "lost|not joined"),
    ("lock", "src/os/lock.c", "(now == LOCK_FREE ? held : now) | LOCK_WAITED;",
     "now == LOCK_FREE ? held : now | LOCK_WAITED;", "wake-up was lost|too many steps"),
    ("lock", "src/os/lock.h", "& LOCK_WAITED) != 0))", "& LOCK_WAITED) == 1))", "wake-up was lost"),
    ("lock", "src/os/lock.c", "compare_swap(&lock->state, &expected, held, ACQUIRE, RELAXED))",
     "(store(&lock->state, held, ACQUIRE), true))", "two threads are inside"),
    ("lock", "src/os/lock.c", "|| !compare_swap(&lock->state, &word, held | LOCK_WAITED, ACQUIRE, RELAXED)) "
     "return false;", ") return false; store(&lock->state, held | LOCK_WAITED, ACQUIRE);",
     "two threads are inside|taken over twice"),
    ("lock", "src/os/lock.c", "store(&lock->is_inherited, true, RELAXED);", "",
     "nobody was told|two threads are inside"),
    ("lock", "src/os/lock.c", "return id != 0 && os_task_has_ended(id);", "return true;",
     "two threads are inside|that lives"),
    ("lock", "src/os/lock.c", "return take_or_mark(lock, lock_own_word()) == LOCK_FREE;", "return false;",
     "wake-up was lost"),
    ("cache", "src/core/cache.h", "store(&entry->top, (uint32_t)below, RELAXED); if",
     "store(&entry->top, (uint32_t)top, RELAXED); if",
     "not what lies there|newest block"),
    ("cores", "src/core/cores.c", "if (count == 0 || os_counted(os_rseq_fence()) != 0)", "if (count == 0)",
     "handed out twice|a sequence changed a cache"),
    ("cores", "src/core/cores.c", "!compare_swap(&cache->state, &state, owned_here(), ACQUIRE, RELAXED)) /* K1 */",
     "(store(&cache->state, owned_here(), RELAXED), state != CACHE_IN_SLOT))", "two threads own a cache"),
    ("cores", "src/core/cores.c",
     "== CACHE_SPARE && compare_swap(&cache->state, &state, owned_here(), ACQUIRE, RELAXED)",
     "== CACHE_SPARE && (store(&cache->state, owned_here(), ACQUIRE), state == CACHE_SPARE)",
     "two threads own a cache|a spare cache is in a slot"),
    ("cores", "src/core/cores.c", "int core = -1; struct", "int core = -1; store(&cache->state, CACHE_IN_SLOT, "
     "RELEASE); struct", "two threads own a cache"),
    ("cores", "src/core/cores.c", "core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE, RELEASE", "CACHE_IN_SLOT, RELEASE",
     "not in the slot that it says"),
    ("cores", "src/core/cores.c", "if (rseq_swap(area, core_slots, cache, &cache_none) >= 0)",
     "store(&core_slots[area->core].base, &cache_none, RELAXED); if (true)",
     "was taken, and is in a slot|a block was lost"),
    ("cores", "src/core/cores.c", "core = rseq_swap(area, core_slots, &cache_none, cache);",
     "store(&core_slots[core = (int)of_thread.area->core].base, cache, RELAXED);", "not in the slot that it says"),
    ("cores", "src/core/cores.c", "store(&cache->state, CACHE_IN_SLOT, RELEASE);", "", "owned, and nobody runs"),
    ("cores", "src/core/cores.c",
     "compare_swap(&core_slots[cache->core].base, &expected, &cache_none, RELAXED, RELAXED);", "(void)expected;",
     "spare cache is in a slot|a sequence changed a cache"),
    ("cores", "src/core/cores.c", "break; /* another thread took it, and does not run now */",
     "{ if (cache == &cache_none) break; tries = 0; continue; }", "too many steps"),
    ("cores", "src/core/cores.c", "if (state < CACHE_OWNED || state == owned_here())", "if (state < CACHE_OWNED)",
     "two threads own a cache|not in the slot that it says"),
    ("cores", "src/core/cores.c",
     "cache->core = (uint32_t)core; store(&cache->state, core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE, RELAXED);",
     "store(&cache->state, core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE, RELAXED);",
     "not in the slot that it says|spare cache is in a slot"),
    ("cores", "src/core/cores.c", "return (uintptr_t)&of_thread | CACHE_OWNED;", "return CACHE_OWNED;",
     "owned, and nobody runs"),
    ("cores", "src/core/cores.c", "!compare_swap(&made, &count, taken, ACQ_REL, RELAXED)",
     "(store(&made, taken, RELAXED), false)", "a block was lost"),
    ("cores", "src/core/cache.h", "store(cache_slot(cache, top), below, RELAXED); store(&entry->top, top, RELEASE);",
     "store(&entry->top, top, RELEASE); store(cache_slot(cache, top), below, RELAXED);", "a live block was found"),
    ("cores", "src/core/cache.h", "if (block != NULL) store(&entry->top, top - SLOT_BYTES, RELAXED); return block;",
     "if (block != NULL) store(&entry->top, top, RELAXED); return block;", "twice|a block in use lies in a cache"),
    ("pool", "src/pool/pool.c", "return (load(at->word, RELAXED) & bit) == 0 && "
     "(fetch_or(word_freed(at->class, at->word), bit, SEQ_CST) & bit) == 0;",
     "if ((load(at->word, RELAXED) & bit) != 0) return false; pool_word *one = word_freed(at->class, at->word); "
     "uint64_t had = load(one, RELAXED); store(one, had | bit, SEQ_CST); return (had & bit) == 0;",
     "not exactly one|lost"),
    ("pool", "src/pool/pool.c", "if (unlikely((detours & POOL_WAS_REMOTE) == 0)) "
     "/* before S3: no free can be left unseen */ "
     "store(&pool->detours, detours | POOL_WAS_REMOTE, RELAXED);", "(void)detours;",
     "lost|not exactly one|a free block was freed"),
    ("pool", "src/pool/pool.c", "if (free == 0) raise_word(pool, class, w); if", "if", "lost|P2"),
    ("pool", "src/pool/pool.c", "fetch_and(above, ~level_bit(i), SEQ_CST); if (load(below, SEQ_CST) != 0) "
     "fetch_or(above, level_bit(i), SEQ_CST);", "fetch_and(above, ~level_bit(i), SEQ_CST);", "lost|P7"),
    ("pool", "src/pool/pool.c", "fetch_or(word, level_bit(i), SEQ_CST); }",
     "{ uint64_t had = load(word, RELAXED); store(word, had | level_bit(i), SEQ_CST); } }", "lost|P7"),
    ("pool", "src/pool/pool.c", "fetch_and(word_freed(class, word), ~level_bit(i), RELAXED);", "(void)0;",
     "live block|cannot be freed|not exactly one|is live that was freed|came back twice|P7"),
    ("pool", "src/pool/pool.c", "fetch_and(word_freed(class, word), ~level_bit(i), RELAXED);",
     "store(word_freed(class, word), 0, RELAXED);", "lost|not exactly one|is live that was freed"),
    ("pool", "src/pool/pool.c", "if (unlikely(was_remote(pool))) return mark_freed(at); return", "return",
     "not exactly one|a free block was freed"),
    ("pool", "src/pool/pool.c", "if (unlikely(load(&pool->detours, RELAXED) != 0)) return free_detour(pool, block); "
     "free_latest", "free_latest", "not exactly one|twice|a free block was freed|P3"),
    ("pool", "src/pool/pool.c", "if (unlikely(load(&pool->detours, RELAXED) != 0)) return free_detour(pool, block); "
     "/* another thread may have freed it */", "", "not exactly one|twice|a free block was freed"),
    ("pool", "src/pool/pool.c", "store(word, UINT64_MAX >> (64 - blocks), RELAXED);",
     "store(&class->begun, begun + blocks, RELEASE); store(word, UINT64_MAX >> (64 - blocks), RELAXED);",
     "a live block was handed out|not exactly one|came back twice"),
    ("pool", "src/pool/pool.c", "store(at->word, level_with(free, at->i), RELAXED);",
     "store(at->word, level_with(free, at->i), RELAXED); store(word_freed(at->class, at->word), 0, RELAXED);",
     "lost|not exactly one|is live that was freed"),
    ("pool", "src/pool/pool.c", "if (likely(error == 0) && unlikely(!may_free(pool, &at))) error = CALM_EDOUBLE; "
     "if (unlikely(error != 0)) return refuse_free(pool, block, error); forget_latest",
     "if (error != 0) return error; may_free(pool, &at); forget_latest", "a free block was freed"),
    ("ring", "src/exec/ring.c", "compare_swap(&ring->head, &head, head + 1, RELAXED, RELAXED)",
     "(store(&ring->head, head + 1, RELAXED), true)", "two hands|lost|taken once"),
    ("ring", "src/exec/ring.c", "compare_swap(&ring->tail, &tail, tail + 1, RELAXED, RELAXED)",
     "(store(&ring->tail, tail + 1, RELAXED), true)", "two hands|lost|taken once|not over"),
    ("ring", "src/exec/inbox.c", "return true; inbox_return(inbox, slot); return false;", "return true; return false;",
     "lost"),
    ("doze", "src/exec/inbox.c", "return ring_is_ready(&inbox->ready) || ring_is_ready(&inbox->sent);",
     "return ring_is_ready(&inbox->ready);", "wake-up was lost"),
    ("doze", "src/exec/inbox.c", "return ring_is_ready(&inbox->ready) || ring_is_ready(&inbox->sent);",
     "return ring_is_ready(&inbox->sent);", "wake-up was lost"),
    ("doze", "src/exec/worker.c", "bool has_news = take_back(worker, exec->classes) || has_work(worker);",
     "bool has_news = has_work(worker);", "wake-up was lost"),
    ("doze", "src/exec/worker.c", "exchange(&worker->doze, DOZE_ASLEEP, ACQ_REL); /* Z2: pairs with Z4 */ bool "
     "has_news = take_back(worker, exec->classes) || has_work(worker);",
     "bool has_news = take_back(worker, exec->classes) || has_work(worker); "
     "exchange(&worker->doze, DOZE_ASLEEP, ACQ_REL);",
     "wake-up was lost"),
    ("doze", "src/exec/worker.c", "exchange(&worker->doze, DOZE_AWAKE, ACQ_REL) != DOZE_ASLEEP",
     "load(&worker->doze, ACQUIRE) != DOZE_ASLEEP", "wake-up was lost"),
    ("doze", "src/exec/worker.c", "if (worker->running_of != NULL) inbox_return(worker->running_of, job); "
     "watch_left(line);", "watch_left(line); if (worker->running_of != NULL) inbox_return(worker->running_of, job);",
     "a place without a slot"),
    ("stacks", "src/site/stacks.c", "compare_swap(&row->users, &word, word | CLAIMED, ACQUIRE, RELAXED); /* U3 */",
     "(store(&row->users, word | CLAIMED, RELAXED), true);", "rows count|two stacks|users that are gone"),
    ("stacks", "src/site/stacks.c", "while ((uint32_t)word != CLAIMED) if", "while (true) if",
     "rows count|two stacks|stays claimed|users that are gone"),
    ("stacks", "src/site/stacks.c", "change(row, (struct estimate){0, 0}, estimate); leave(row);",
     "leave(row); change(row, (struct estimate){0, 0}, estimate);", "rows count|another stack"),
    ("stacks", "src/site/stacks.c", "if (load(&row->hash, RELAXED) == hash && load(&row->depth, RELAXED) == depth && "
     "__builtin_memcmp(callers_of(in, number), callers, depth * sizeof *callers) == 0) return true;", "return true;",
     "another stack"),
    ("stacks", "src/site/stacks.c", "load(&row->users, RELAXED) / FILLED_ONE + 1;",
     "load(&row->users, RELAXED) / FILLED_ONE;", "from outside"),
    ("stacks", "src/site/stacks.c", "change(row_of(in, OTHER), asked, freed);", "(void)freed;",
     "asked for is not what rows count"),
    ("stacks", "src/site/stacks.c", "empty(in, row); store", "store", "another stack"),
    ("stacks", "src/site/stacks.c", "load(&row->weight, RELAXED) == 0 || !enter(row)",
     "load(&row->weight, RELAXED) == 0 || (fetch_add(&row->users, 1, RELAXED), false)", "two stacks|another stack|"
     "stays claimed|users that are gone"),
    ("stacks", "src/site/stacks.c", "enter(row_of(in, OTHER)); return OTHER;", "return OTHER;",
     "users that are gone"),
]


def run_mutant(source_dir, shim, compiler, mutant):
    model, path, text, replacement, words = mutant
    with open(os.path.join(source_dir, path)) as file:
        original = file.read()
    pattern = re.sub(r"(\\?\s)+", r"\\s+", re.escape(text))  # however the formatter breaks lines
    places = len(re.findall(pattern, original))
    if places != 1:
        return "the text to change is there %d times, not once; bring this list up to date" % places
    with tempfile.TemporaryDirectory() as work:
        copy = os.path.join(work, *path.split("/")[1:])
        os.makedirs(os.path.dirname(copy))
        changed = re.sub(pattern, lambda found: replacement, original)
        if path == "src/os/lock.h":
            changed = changed.replace("LOOKS_MAX = 100", "LOOKS_MAX = 1")
        if path == "src/os/lock.c":
            changed = changed.replace("PATIENT_SLEEPS = 8", "PATIENT_SLEEPS = 1")
        if path == "src/core/large_cache.c":
            changed = changed.replace("SLOTS = 8", "SLOTS = 2")
        with open(copy, "w") as file:
            file.write(changed)
        tests = os.path.join(source_dir, "tests", "model")
        program = os.path.join(work, "model")
        built = subprocess.run(
            [compiler, "-std=gnu17", "-O1", "-w", "-DCALM_CHECKS=1", "-static", "-Wl,--unresolved-symbols=ignore-all",
             "-I" + work, "-I" + shim, "-I" + os.path.join(tests, "shim", model),
             "-I" + os.path.join(tests, "shim"), "-I" + os.path.join(source_dir, "src"), "-I" + tests,
             "-I" + os.path.join(source_dir, "include"),
             os.path.join(tests, model + "_model.c"), os.path.join(tests, "explore.c"),
             os.path.join(source_dir, "src", "core", "class_tables.c"), "-o", program],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode != 0:
            return "the mutant does not compile:\n" + built.stdout
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if done.returncode == 0 or not any(word in done.stdout for word in words.split("|")):
            return "the mutant was not caught (exit %d):\n%s" % (done.returncode, done.stdout[-600:])
    return None


def main():
    source_dir, shim, compiler = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    failed = 0
    for mutant in MUTANTS:
        trouble = run_mutant(source_dir, shim, compiler, mutant)
        print("%s: %s -> %s" % (mutant[1], mutant[3][:60], trouble or "caught"))
        failed += trouble is not None
    return 1 if failed else 0


sys.exit(main())
