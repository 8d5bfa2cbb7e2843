#!/usr/bin/env python3
"""Puts GoogleTest's sources under build/ and prints their folder.

They come as Debian's source package, straight from its registry and checked against its published hash: a plain
download, so that neither root nor a Debian system is needed. A copy that is already there, or one named by
OPENHPU_GTEST, is used as it is.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "1.12.1"
PACKAGE = "pool/main/g/googletest/googletest_1.12.1-0.2_all.deb"
SHA256 = "927be72067517da503b6538026d451455c9e860f5dbfe237f792543db7d5a928"
MIRRORS = (
    "https://deb.debian.org/debian",
    "http://deb.debian.org/debian",
    "https://archive.debian.org/debian",
    "https://snapshot.debian.org/archive/debian/20230701T000000Z",
)
INSTALLED = Path("/usr/src/googletest")  # where the distribution's own package puts it
PREFIX = "./usr/src/googletest/googletest/"


def is_framework(folder):
    return (folder / "src" / "gtest-all.cc").is_file()


def download():
    failures = []
    for mirror in MIRRORS:
        url = f"{mirror}/{PACKAGE}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                data = answer.read()
        except (urllib.error.URLError, OSError) as error:
            failures.append(f"{url}: {error}")
            continue
        if hashlib.sha256(data).hexdigest() == SHA256:
            return data
        failures.append(f"{url}: not the expected file")
    raise SystemExit(
        "GoogleTest could not be fetched:\n  "
        + "\n  ".join(failures)
        + "\nInstall it (Debian: apt-get install googletest), or set OPENHPU_GTEST to the folder of a copy."
    )


def unpack(package, folder):
    folder.mkdir(parents=True)
    file = folder / "package.deb"
    file.write_bytes(package)
    # A package is an archive of `ar`, which belongs to every C++ compiler.
    data = subprocess.run(["ar", "p", file, "data.tar.xz"], capture_output=True, check=True, timeout=60)
    file.unlink()
    with tarfile.open(fileobj=io.BytesIO(data.stdout)) as files:
        for entry in files:
            if entry.isfile() and entry.name.startswith(PREFIX):
                target = folder / entry.name[len(PREFIX) :]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.extractfile(entry).read())


def locate():
    if named := os.environ.get("OPENHPU_GTEST"):
        for folder in (Path(named), Path(named) / "googletest"):
            if is_framework(folder):
                return folder.resolve()
        raise SystemExit(f"OPENHPU_GTEST={named} holds no src/gtest-all.cc")
    target = Path(__file__).resolve().parents[2] / "build" / f"googletest-{VERSION}"
    if is_framework(target):
        return target
    if is_framework(INSTALLED / "googletest"):
        return INSTALLED / "googletest"
    # Unpacked beside and moved: an interrupted run leaves nothing that looks complete.
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    unpack(download(), partial)
    try:
        partial.rename(target)
    except OSError:
        if not is_framework(target):  # unless another run was faster
            raise
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{locate()}\n")
