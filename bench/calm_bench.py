#!/usr/bin/env python3
"""The module behind `./calm bench`. See README.md beside this file."""

import sys

from harness.cli import main

sys.exit(main())
