"""The optional accelerator. Without a compiler everything works, only slower."""

import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup

accelerator = Extension(
    "milepost._native",
    sources=sorted(glob("src/native/*.c")),
    depends=sorted(glob("src/native/*.h")),
    extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-Wall", "-Wextra"],
    optional=True,
)

# It relies on the lock of the interpreter: nothing changes while a value is packed.
free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")

setup(ext_modules=[] if free_threaded else [accelerator])
