"""Interpreters and virtual machines, each on a script of ours that walks through what it allocates."""

from cases import case
from harness import SCRIPTS, find_program


@case("perl", "programs", ("perl",))
def perl(world):
    world.run(find_program("perl"), SCRIPTS / "tour.pl", env={"PERL_HASH_SEED": "0"})


@case("ruby", "programs", ("ruby",))
def ruby(world):
    world.run(find_program("ruby"), "--disable=gems", SCRIPTS / "tour.rb")


@case("lua", "programs", ("lua5.4",))
def lua(world):
    world.run(find_program("lua5.4", "lua"), SCRIPTS / "tour.lua")


@case("node", "programs", ("nodejs",))
def node(world):
    world.run(find_program("node", "nodejs"), SCRIPTS / "tour.js")


@case("java", "full", ("default-jdk-headless",), 120, must_see=("javac", "java"))
def java(world):
    """Few heap megabytes, so that the collector works; each collector keeps its own structures in malloc's memory."""
    world.run(find_program("javac"), "-d", "classes", SCRIPTS / "Tour.java")
    for collector in ("-XX:+UseSerialGC", "-XX:+UseG1GC", "-XX:+UseZGC"):
        world.run(find_program("java"), "-Xmx256m", collector, "-cp", "classes", "Tour", label=f"java {collector}")
