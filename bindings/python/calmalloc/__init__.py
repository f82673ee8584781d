"""calmalloc: a memory allocator to put under Python.

    python -m calmalloc run script.py ARGS     runs a script on calmalloc, and says what it needed
    python -m calmalloc heap script.py ARGS    says which functions hold its heap
    LD_PRELOAD=$(calm lib) PYTHONMALLOC=malloc python script.py

The functions here speak to the calmalloc that this interpreter runs on. Without one, is_active() says so and the
others raise NotActive.
"""
from ._heap import (NotActive, charged, committed, enable, idle, is_active, page_out_cold, profile, profile_dump,
                    profile_start, profile_stop, stats, trim, version)

__all__ = ["NotActive", "charged", "committed", "enable", "idle", "is_active", "page_out_cold", "profile",
           "profile_dump", "profile_start", "profile_stop", "stats", "trim", "version"]
