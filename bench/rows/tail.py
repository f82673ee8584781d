"""Single calls and their tails, and how times drift."""

from typing import Tuple

from .row import Row

ROWS: Tuple[Row, ...] = ()
