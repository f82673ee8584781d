#!/bin/sh
# calm: the command, as `calm install` puts it into PREFIX/bin.
exec python3 -I "$(dirname -- "$(readlink -f -- "$0")")/../share/calmalloc/tools/calm" "$@"
