"""Drop compiled kernels that are older than the code they were made from.

numba keeps compiled functions next to the source and compiles again when the *file* of a function
changes. A function that was inlined from another file is not looked at: after an upgrade, a loop
could go on with yesterday's log density. So the package remembers the state of all its files, and
when any of them has changed, all kernels are compiled anew.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

STAMP = "kernels.stamp"


def drop_stale_kernels(package: Path) -> bool:
    """Delete the cached kernels below `package` if a source file has changed since they were made.

    Returns
    -------
    bool
        Whether they were deleted. Where the folder cannot be written to, nothing happens.
    """
    files = sorted(package.rglob("*.py"))
    state = "\n".join(
        f"{f.relative_to(package)} {f.stat().st_mtime_ns} {f.stat().st_size}" for f in files
    )
    digest = hashlib.sha256(state.encode()).hexdigest()
    stamp = package / "__pycache__" / STAMP
    with suppress(OSError):
        if stamp.exists() and stamp.read_text() == digest:
            return False
        for index in package.rglob("*.nbi"):
            index.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest)
        return True
    return False
