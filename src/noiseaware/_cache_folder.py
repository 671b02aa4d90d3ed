"""Choose where to keep compiled functions, so that the package can be imported anywhere.

By default numba keeps them in `__pycache__` next to the source. If that is not writable, or is
writable by others than the user and root, or if the user has set NUMBA_CACHE_DIR, they go into a
separate folder: below NUMBA_CACHE_DIR, the user's cache folder or the temporary folder, whichever
comes first. Its name contains a digest of the package's files, so that no kernel outlives its
source. Compiled functions are code, so a folder that does not belong to the user alone is not used.
Without any folder, each process compiles them anew.

The choice is made when this module is imported, which must precede any compiled function.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from numba.core import config
from numba.core.dispatcher import Dispatcher

from noiseaware.basics.compiled import looks

__all__ = ["choose_cache_folder"]

_SAY = logging.getLogger("noiseaware").warning
_SET = "set NUMBA_CACHE_DIR to a folder that can be"


def choose_cache_folder(package: Path) -> Path | None:
    """Return the folder for compiled functions, created if needed.

    None if they go next to the source, or cannot be kept.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if not chosen and _writable(package / "__pycache__") and _trusted(package):
        return None
    user = os.getuid() if os.name == "posix" else "own"
    name = f"noiseaware-{user}-{looks(package)[:16]}"
    home = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    for root in filter(None, (chosen, home)):
        if _private(Path(root, name)):
            return Path(root, name)
    with suppress(OSError):
        folder = Path(tempfile.gettempdir(), name)
        new = not folder.exists()
        if _private(folder):
            if new:
                _SAY("neither the package nor a cache folder can be written to: compiled functions "
                     "are kept in %s; %s, to keep them elsewhere", folder, _SET)  # fmt: skip
            return folder
    _SAY("no folder can be written to: functions are compiled anew in each process; %s", _SET)
    Dispatcher.enable_caching = _cache_if_possible  # type: ignore
    return None


def _private(folder: Path) -> bool:
    """Create a folder; return whether it is writable, and by the user alone."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return False
    if os.name == "posix" and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        return False
    return stat.S_ISDIR(state.st_mode) and _writable(folder)


def _trusted(package: Path) -> bool:
    """Whether all folders of the package belong to, and are writable by, only the user and root.

    A `__pycache__` that is a link leads elsewhere, and is not trusted.
    """
    if os.name != "posix":
        return True
    for folder, below, _ in os.walk(package):
        for path in (folder, *(os.path.join(folder, name) for name in below)):
            state = os.lstat(path)
            ours = state.st_uid in (os.getuid(), 0) and stat.S_ISDIR(state.st_mode)
            if not ours or state.st_mode & 0o022:
                return False
    return True


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _place_for_pictures(folder: Path | None) -> None:
    """Give Matplotlib a folder if it has none, so that it does not complain."""
    if {"MPLCONFIGDIR", "XDG_CONFIG_HOME"} & set(os.environ):
        return
    if not os.access(os.path.expanduser("~"), os.W_OK):
        user = os.getuid() if os.name == "posix" else "own"
        place = folder or Path(tempfile.gettempdir(), f"noiseaware-{user}-pictures")
        if _private(place):
            os.environ["MPLCONFIGDIR"] = str(place)


_enable_caching = Dispatcher.enable_caching


def _cache_if_possible(dispatcher: Dispatcher) -> None:
    with suppress(RuntimeError):
        _enable_caching(dispatcher)


_folder = choose_cache_folder(Path(__file__).parent)
_place_for_pictures(_folder)
if _folder is not None:
    config.CACHE_DIR = str(_folder)  # type: ignore
