"""CPython's own compiler: a generated source is parsed to a tree, the tree walked, and compiled; a few times over.

Run with PYTHONMALLOC=malloc, or the interpreter's own small-object allocator hides the library. Measures a compiler:
tokens, trees of small nodes, symbol tables, then code objects, and all dropped. Prints a checksum.
"""

import ast
import sys
import zlib


def source(functions: int) -> str:
    lines = []
    for number in range(functions):
        lines += [
            f"def f{number}(a, b={number}, *rest, key='k{number}'):",
            f"    total = [a * {number} + i for i in range(b) if i % {number % 7 + 2}]",
            f"    table = {{'x{number}': a, 'y': (b, {number}.5), key: total[:{number % 9}]}}",
            "    try:",
            f"        return table['x{number}'] + sum(total) if a < {number} else f{max(number - 1, 0)}(a, b)",
            "    except (KeyError, TypeError) as error:",
            f"        raise ValueError(f'{{a}} of {number}') from error",
        ]
    return "\n".join(lines)


def main() -> None:
    functions = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    text, check = source(functions), 0
    for round_ in range(3):
        tree = ast.parse(text)
        nodes = sum(1 for _ in ast.walk(tree))
        code = compile(tree, f"made-{round_}", "exec", dont_inherit=True, optimize=round_ % 3)
        names = " ".join(each.co_name for each in code.co_consts if hasattr(each, "co_name"))
        check = zlib.crc32(f"{nodes} {names}".encode(), check)
        del tree, code
    print(len(text), check)


main()
