"""Reads a profile with Python's gzip and protobuf, by a profile.proto written from the field numbers.

Seen to fail with the checksum's complement left out, with location_id and value exchanged, and with live numbers
written before all.
"""
import gzip
import os
import sys
import tempfile

import support

sys.path.insert(0, os.path.join(os.path.dirname(support.HERE), "support"))
import pinned  # noqa: E402

PINNED = os.path.join(support.HERE, "requirements.txt")


def message_class(folder):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    out = os.path.join(folder, "profile.descriptors")
    support.run("protoc", "--proto_path=" + support.HERE, "--descriptor_set_out=" + out, "profile.proto")
    with open(out, "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("calm.Profile"))


def check(profile, stacks, program):
    from google.protobuf import unknown_fields
    strings = profile.string_table
    assert strings[0] == ""
    assert [(strings[kind.type], strings[kind.unit]) for kind in profile.sample_type] == [
        ("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert (strings[profile.period_type.type], strings[profile.period_type.unit]) == ("space", "bytes")
    assert strings[profile.default_sample_type] == "inuse_space"
    assert profile.period == 524288 and profile.duration_nanos == 5 * 10**9
    assert profile.time_nanos == 1700000000123456789
    comments = [strings[index] for index in profile.comment]
    assert len(comments) == 2 and comments[0].endswith("; 12 samples, 3 lost, 0 cut"), comments
    assert comments[1].startswith("pid ") and comments[1][4:].isdigit(), comments

    mappings = {mapping.id: mapping for mapping in profile.mapping}
    locations = {location.id: location for location in profile.location}
    assert len(mappings) == len(profile.mapping) and len(locations) == len(profile.location)
    assert 0 not in mappings and 0 not in locations
    assert len({location.address for location in profile.location}) == len(profile.location)
    for message in (profile, *profile.mapping, *profile.location, *profile.sample, *profile.sample_type):
        assert len(unknown_fields.UnknownFieldSet(message)) == 0, message

    assert len(profile.sample) == len(stacks)
    for sample, (callers, (live_blocks, live_bytes, all_blocks, all_bytes)) in zip(profile.sample, stacks):
        assert [locations[index].address for index in sample.location_id] == [caller - 1 for caller in callers]
        assert list(sample.value) == [all_blocks, all_bytes, live_blocks, live_bytes]
    seen = set()
    for location in profile.location:
        mapping = mappings[location.mapping_id]
        assert mapping.memory_start <= location.address < mapping.memory_limit
        path = strings[mapping.filename]
        assert path in (program.path, program.library), path
        assert strings[mapping.build_id] == program.build_id(path)
        seen.add(path)
    assert seen == {program.path, program.library}


def main():
    support.needs.need("protoc")
    if not pinned.enter(PINNED, os.path.join(support.SCRATCH, "venv")):
        with open(PINNED) as file:
            support.skip("no Python environment with %s to be had." % file.read().strip())
    with tempfile.TemporaryDirectory() as folder:
        program = support.Program(folder, is_stripped=True)
        path, stacks = program.write("pprof")
        with gzip.open(path) as file:  # checks the checksum and the length as well
            words = file.read()
        check(message_class(folder).FromString(words), stacks, program)


if __name__ == "__main__":
    main()
