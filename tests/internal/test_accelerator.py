"""A fault in the C code makes an installation pure, without a word: here it is said."""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from milepost._internal import native


def test_where_there_is_a_compiler_the_accelerator_is_built() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if (
        shutil.which(compiler) is None
        or not Path(sysconfig.get_path("include"), "Python.h").exists()
    ):
        pytest.skip("nothing to build it with")
    if os.environ.get("MILEPOST_PURE") == "1" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("it is left out on purpose")
    assert native.AVAILABLE, "build it again: pip install -e '.[test]'"
