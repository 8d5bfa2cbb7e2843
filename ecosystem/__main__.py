"""`python -m ecosystem LANE [PYTEST ARGUMENT ...]`: runs a lane and writes docs/ecosystem/LANE.md.

`python -m ecosystem lock LANE` finds the versions and hashes of a lane's packages anew. What is installed and unpacked
lies under build/ecosystem/LANE, beside this environment, which stays as it is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ecosystem import page
from ecosystem.lanes import LANES, Lane

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "ecosystem" / "requirements"
PAGES = ROOT / "docs" / "ecosystem"
# Ours, and what PyTorch's exact version brings: never taken from elsewhere.
KEPT = {"torch", "torchvision", "numpy", "setuptools", "sympy", "networkx", "mpmath", "jinja2", "markupsafe"}
TIMEOUT_S = 3600
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")


def lock(name: str) -> None:
    """Write the requirements file of a lane: each package with its version and its hash."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraint = Path(folder) / "report.json", Path(folder) / "constraint.txt"
        constraint.write_text("torch==2.13.0\ntorchvision==0.28.0\n")
        command = (*PIP, "install", "--dry-run", "--ignore-installed", "--report", str(report), "-c", str(constraint))
        subprocess.run([*command, *LANES[name].packages], check=True)
        found = json.loads(report.read_text())["install"]
    lines = []
    for package in sorted(found, key=lambda package: package["metadata"]["name"].lower()):
        about, archive = package["metadata"], package["download_info"]["archive_info"]
        if about["name"].lower() not in KEPT:
            lines.append(f"{about['name']}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}")
    (REQUIREMENTS / f"{name}.txt").write_text("\n".join(lines) + "\n")


def install(name: str, lane: Lane, folder: Path) -> tuple[Path | None, Path]:
    """The folder with the lane's packages, if it has any, and the one with its tests."""
    site, tests = None, ROOT / "ecosystem" / name.replace("-", "_")
    requirements = REQUIREMENTS / f"{name}.txt"
    if lane.packages:
        site, done = folder / "site", folder / "installed.txt"
        if not done.exists() or done.read_text() != requirements.read_text():
            subprocess.run(
                [*PIP, "install", "--no-deps", "--require-hashes", "--upgrade", "--target", str(site), "-r",
                 str(requirements)], check=True,
            )  # fmt: skip
            done.write_text(requirements.read_text())
    if lane.source:
        version = next(package for package in lane.packages if package.startswith(f"{lane.source}=="))
        tests = folder / version.replace("==", "-")
        if not tests.exists():
            subprocess.run(
                [
                    *PIP,
                    "download",
                    "--no-deps",
                    "--no-build-isolation",
                    "--no-binary",
                    ":all:",
                    "-d",
                    str(folder),
                    version,
                ],
                check=True,
            )
            with tarfile.open(next(folder.glob(f"{tests.name}*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
    return site, tests


def run(name: str, arguments: list[str]) -> int:
    """Run the lane's tests and write its page; 0 when nothing failed that is not explained."""
    lane, folder = LANES[name], ROOT / "build" / "ecosystem" / name
    folder.mkdir(parents=True, exist_ok=True)
    site, tests = install(name, lane, folder)
    paths = [str(path) for path in (site, ROOT, ROOT / "src") if path]
    commands = [str(path) for path in (site and site / "bin", Path(sys.executable).parent) if path]
    common = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENHPU_MODULE_LOCKS": "0", "HF_HUB_OFFLINE": "1",
        "PATH": os.pathsep.join([*commands, os.environ["PATH"]]), "PYTHONWARNINGS": "ignore", "CI": "true",
    }  # fmt: skip
    results: dict[str, list[page.Case]] = {}
    for number, one in enumerate(lane.runs):
        report = folder / f"report{number}.xml"
        report.unlink(missing_ok=True)
        chosen = " and ".join([*([f"({one.only})"] if one.only else []), *(f"not {part}" for part in lane.left_out)])
        command = [
            sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests), "--tb=short", "-p",
            "no:cacheprovider", f"--junit-xml={report}", *(["-k", chosen] if chosen else []), *one.tests, *arguments,
        ]  # fmt: skip
        print(f"=== {one.title}", flush=True)
        subprocess.run(command, cwd=tests, env=common | one.environment, timeout=TIMEOUT_S, check=False)
        results[one.title] = page.cases(report) if report.exists() else []
    everything = [case for found in results.values() for case in found]
    if not arguments:
        PAGES.mkdir(parents=True, exist_ok=True)
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        versions = ", ".join(package for package in ("torch==2.13.0", *lane.packages) if "==" in package)
        date = datetime.date.today().isoformat()
        (PAGES / f"{name}.md").write_text(page.text(lane, versions, commit.stdout.strip(), date, results))
    left = page.unexplained(lane, everything)
    print("\n".join(f"not explained: {case.name}: {case.reason[:200]}" for case in left))
    empty = [title for title, found in results.items() if not found]
    print("\n".join(f"no test ran: {title}" for title in empty))
    return 1 if left or empty else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem", description=__doc__)
    parser.add_argument("what", choices=[*LANES, "lock"])
    options, rest = parser.parse_known_args()
    if options.what == "lock":
        for name in rest or [name for name, lane in LANES.items() if lane.packages]:
            lock(name)
        return 0
    return run(options.what, rest)


if __name__ == "__main__":
    sys.exit(main())
