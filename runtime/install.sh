#!/bin/sh
# Installs the runtime for C and C++: runtime/install.sh [--debug] [--built] [--remove] PREFIX. See scripts/install-library.
exec "$(dirname "$0")/../scripts/install-library" runtime "$@"
