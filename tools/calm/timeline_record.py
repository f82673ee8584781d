"""What `calm top --record FILE` writes: a line of JSON a look, as `calm top --json` prints, without caches.

With the profiler on a line also has the stacks that hold most. Their functions have numbers: "frames" of a line has
those that no line before it had, each [name, file, line, module, is_named, is_of_script], and numbers go on from line
to line. A line that was not written to its end is the last one, and is left out by who reads.
"""
import json
from dataclasses import astuple

from heap_profile import Profile
from trouble import Trouble

STACKS_KEPT = 300  # that hold most; the others are one number


class Recorder:
    """Writes looks to a file, or nowhere."""

    def __init__(self, path, subject):
        self.path, self.subject, self.file = path, subject, None
        self.frames, self.known = {}, {}  # numbers by frame; numbers of frames by stack

    def is_on(self):
        return self.path is not None

    def __enter__(self):
        if self.path is not None:
            try:
                self.file = open(self.path, "w", encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                raise self.trouble(error) from None
        return self

    def __exit__(self, *_):
        if self.file is not None:
            self.file.close()

    def trouble(self, error):
        return Trouble("'%s' cannot be written: %s; name another file, or make room." % (self.path, error.strerror))

    def keep(self, look):
        if self.file is None:
            return
        found = self.subject.as_json(look)
        found.pop("caches", None)
        found.pop("executors", None)
        found["classes"] = [entry for entry in found.get("classes", []) if entry["slabs"]]
        if look.heap and look.heap.profiler_on and self.subject.names.symbols is not None:
            found.update(self.stacks())
        try:
            self.file.write(json.dumps(found, separators=(",", ":")) + "\n")
            self.file.flush()
        except OSError as error:
            raise self.trouble(error) from None

    def stacks(self):
        profile = self.subject.heap.profile(0)
        live = sorted((stack for stack in profile.stacks if stack.live_bytes), key=lambda stack: -stack.live_bytes)
        kept, rest = live[:STACKS_KEPT], live[STACKS_KEPT:]
        fresh = {key_of(stack): stack for stack in kept if key_of(stack) not in self.known}
        new = []
        if fresh:
            names = self.subject.names.symbols.resolve(
                Profile(list(fresh.values()), profile.mappings, False, 0, 0, 0, []))
            for key, frames in zip(fresh, names):
                self.known[key] = [self.number_of(frame, new) for frame in frames]
        return {"frames": new, "stacks": [[stack.live_bytes, stack.live_blocks, self.known[key_of(stack)]]
                                          for stack in kept],
                "other_stacks_bytes": sum(stack.live_bytes for stack in rest)}

    def number_of(self, frame, new):
        if frame not in self.frames:
            self.frames[frame] = len(self.frames)
            new.append(list(astuple(frame)))
        return self.frames[frame]


def key_of(stack):
    return tuple(tuple(location.lines) if location.lines else location.address for location in stack.locations)
