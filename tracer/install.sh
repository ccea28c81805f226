#!/bin/sh
# Installs the tracer for C and C++: tracer/install.sh [--debug] [--built] [--remove] PREFIX. See scripts/install-library.
exec "$(dirname "$0")/../scripts/install-library" tracer "$@"
