#!/bin/sh
# Installs the programs that the "programs" rows run, by their Debian package names. Needs root.
# A row whose program is missing is skipped and says so, so this is optional. Where a distribution has no z3, the
# Python package z3-solver puts one beside pip.
set -eu
apt-get update
apt-get install -y --no-install-recommends \
    perl git g++ ruby lua5.4 z3 sqlite3 ghostscript jq redis-server redis-tools memcached nodejs valgrind
