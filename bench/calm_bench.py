#!/usr/bin/env python3
"""Measures calmalloc against its peers. See README.md beside this file."""

import sys

from harness.cli import main

sys.exit(main())
