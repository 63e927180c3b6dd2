"""Loading libghostty-vt, which pyghostty ships, without parsing its C declarations at every start.

pyghostty gives cffi a header of 80 KB to parse when it is imported, which takes a third of a second: most of
what a daemon needs to come back. cffi can write down what it parsed as a module that loads in a millisecond.
That is done once for each version of both, into the `__pycache__` of this package or, where that can't be
written, into the user's cache. If anything about it fails, pyghostty itself is imported instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from typing import Any

from ...system.files import replace_file
from ...system.settings import cache_dir

NAME = "fairlead_ghostty"
_LIBRARIES = ("libghostty-vt.so", "libghostty-vt.dylib")


def load() -> tuple[Any, Any]:
    """cffi's `ffi` and `lib` for libghostty-vt. Raises ImportError if there is no pyghostty."""
    try:
        found = importlib.util.find_spec("pyghostty")
        if found is not None and found.origin is not None and "PYGHOSTTY_LIB" not in os.environ:
            return _load(os.path.dirname(found.origin))
    except Exception:  # not the pyghostty that we know; it will know itself
        pass
    from pyghostty import ffi, lib

    return ffi, lib


def _load(package: str) -> tuple[Any, Any]:
    import _cffi_backend

    with open(f"{package}/_cdef.py", "rb") as file:
        source = file.read()
    (library,) = [f"{package}/_lib/{name}" for name in _LIBRARIES if os.path.exists(f"{package}/_lib/{name}")]
    version = f"{sys.implementation.cache_tag} {_cffi_backend.__version__} ".encode()
    key = hashlib.sha256(version + source).hexdigest()[:16]
    path = _kept(key) or _write(source, key)
    module = _run(path)
    return module.ffi, module.ffi.dlopen(library)


def _places() -> list[str]:
    return [os.path.join(os.path.dirname(__file__), "__pycache__"), cache_dir(os.environ)]


def _kept(key: str) -> str | None:
    """The module that was written before, if it is ours."""
    for place in _places():
        path = f"{place}/{NAME}_{key}.py"
        with contextlib.suppress(OSError):
            if os.stat(path).st_uid in (0, os.getuid()):
                return path
    return None


def _write(source: bytes, key: str) -> str:
    """Let cffi parse the declarations and write down what it found; gives where."""
    from cffi import FFI

    declared: dict[str, Any] = {}
    exec(source, declared)
    parsed = FFI()
    parsed.cdef(declared["CDEF"])
    parsed.set_source(NAME, None)
    with tempfile.TemporaryDirectory() as directory:
        made = f"{directory}/{NAME}.py"
        with contextlib.redirect_stdout(io.StringIO()):  # it tells what it does
            parsed.emit_python_code(made)
        with open(made, "rb") as file:
            text = file.read()
    for place in _places():
        with contextlib.suppress(OSError):
            os.makedirs(place, mode=0o700, exist_ok=True)
            path = f"{place}/{NAME}_{key}.py"
            replace_file(path, text)
            return path
    raise OSError("no place to write to")


def _run(path: str) -> Any:
    loader = SourceFileLoader(NAME, path)
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
