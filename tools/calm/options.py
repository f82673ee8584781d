"""The options of CALM_OPTIONS, as src/front/options.def lists them: for `calm options` and for the manual."""
import os
import re
from dataclasses import dataclass

ENTRY = re.compile(r'^(NUMBER|CHOICE)\((\w+),\s*(.*?),\s*(START|ANYTIME),\s*"((?:[^"\\]|\\.)*)"\)', re.M)


@dataclass
class Option:
    name: str
    default: str
    values: str  # "16 to 64", "off or on"
    is_anytime: bool
    help: str


def read(root):
    with open(os.path.join(root, "src", "front", "options.def")) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    found = []
    for kind, name, middle, when, words in ENTRY.findall(text):
        if kind == "NUMBER":
            default, low, high = [part.strip() for part in middle.split(",")]
            values = "%s to %s" % (low, high)
        else:
            default, choices = [part.strip() for part in middle.split(",", 1)]
            choices = choices.strip('"').split("|")
            default, values = choices[int(default)], " or ".join(choices)
        found.append(Option(name, default, values, when == "ANYTIME", words))
    return found
