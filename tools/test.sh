#!/usr/bin/env bash
# Installs what is missing (tools/setup.sh), builds everything into build/ and runs all tests. Arguments go to ctest:
#
#   tools/test.sh [-R core] ...
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh build test
echo "test: building into build/"
cmake --preset default -DOXRSE_TESTS=ON >/dev/null
cmake --build build
echo "test: running all tests"
ctest --test-dir build --output-on-failure --parallel 2 "$@"
