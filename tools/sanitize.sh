#!/usr/bin/env bash
# Builds the accelerator with AddressSanitizer and UndefinedBehaviorSanitizer and runs the tests of
# what it does. A copy of the sources is built: the checkout and its environment stay as they are.
#
#     bash tools/sanitize.sh                     the tests of the accelerator and of serialization
#     bash tools/sanitize.sh tests/checkpoint/sql -k large  others
#
# It needs gcc and the environment that CONTRIBUTING.md makes; $PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
compiler=${CC:-gcc}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/milepost-sanitize.XXXXXXXX")
trap 'rm -rf -- "$scratch"' EXIT

mkdir "$scratch/copy"
cp -R pyproject.toml setup.py README.md LICENSE src "$scratch/copy"
rm -f -- "$scratch"/copy/src/milepost/_native*.so
flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
CC=$compiler CFLAGS="$flags" LDFLAGS="$flags" "$python" -m pip install --quiet --no-deps \
  --target "$scratch/site" "$scratch/copy"

# The cipher's library is loaded in a way that AddressSanitizer does not allow.
(($#)) || set -- tests/internal/test_accelerator.py tests/checkpoint/serde \
  -k "not test_serde_encryption and not sealed"
# The interpreter itself leaks by design. Its own allocator would hide most errors from the tools.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
export LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)"
export PYTHONPATH=$scratch/site PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
# An installation goes on without the accelerator if the compiler fails.
"$python" -c '
import sys
from milepost._internal import native
found = sys.modules["milepost._native"].__file__
assert native.AVAILABLE and found.startswith(sys.argv[1]), found
' "$scratch"
"$python" -m pytest -n0 -p no:cacheprovider "$@"
