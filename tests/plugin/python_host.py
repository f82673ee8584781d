"""A C++ plug-in in Python: each of its functions returns 0 where a failed operator new did what the standard says."""
import ctypes
import sys

plugin = ctypes.CDLL(sys.argv[1])
for name in ("new", "array", "aligned", "handler", "handler_aligned", "nothrow", "handler_nothrow", "string"):
    result = getattr(plugin, "plugin_" + name)()
    if result != 0:
        sys.exit(f"plugin_{name}: {result}")
