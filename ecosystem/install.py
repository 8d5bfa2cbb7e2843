"""A lane's packages: pinned with hashes, beside this environment, which stays as it is."""

import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from commands import ROOT, child
from ecosystem.lanes import LANES, Lane
from openhpu.settings import tables

REQUIREMENTS = ROOT / "ecosystem" / "requirements"
SHARED = REQUIREMENTS / "shared.tsv"  # packages, each with its hash and the lanes that have it
ENVIRONMENT = ROOT / ".venv"
TORCHVISION = ENVIRONMENT / "torchvision"  # PyPI's build for CUDA, as `make test` installs it
# Ours, and what PyTorch's exact version brings: never taken from elsewhere.
KEPT = {"torch", "torchvision", "numpy", "setuptools", "sympy", "networkx", "mpmath", "jinja2", "markupsafe"}
PIP_S = 1100.0
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")


class LackingError(RuntimeError):
    """Something that a lane needs is neither here nor to be had."""


def requirements(name: str) -> str:
    """The packages of a lane, as pip reads them: of a file of its own, which a document names, or of the shared one."""
    own = REQUIREMENTS / f"{name}.txt"
    if own.exists():
        return own.read_text()
    return "".join(f"{package}\n" for package, lanes in _shared().items() if name in lanes)


class Shared(NamedTuple):
    """A row of the table of packages: name and version, its hash, and the lanes that have it."""

    package: str
    hash: str
    lanes: tuple[str, ...]


def _shared() -> dict[str, tuple[str, ...]]:
    """Of each package, with its version and its hash as pip reads them, the lanes that have it."""
    return {f"{row.package} --hash={row.hash}": row.lanes for row in tables.read(SHARED, Shared)}


def lock(name: str) -> None:
    """Write the packages of a lane: each with its version and its hash."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraint = Path(folder) / "report.json", Path(folder) / "constraint.txt"
        constraint.write_text("torch==2.13.0\ntorchvision==0.28.0\n")
        command = (*PIP, "install", "--dry-run", "--ignore-installed", "--report", str(report), "-c", str(constraint))
        found = []
        for option, packages in ((), LANES[name].packages), (("--no-deps",), LANES[name].alone):
            if not packages:
                continue
            ended = child.run([*command, *option, *packages], seconds=PIP_S)
            ended.checked(f"pip finds no versions of the lane {name}'s packages", LackingError)
            found += json.loads(report.read_text())["install"]
    lines = []
    for package in sorted(found, key=lambda package: package["metadata"]["name"].lower()):
        about, archive = package["metadata"], package["download_info"]["archive_info"]
        if about["name"].lower() not in KEPT and not about["name"].lower().startswith(("nvidia-", "cuda-", "triton")):
            lines.append(f"{about['name']}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}")
    own = REQUIREMENTS / f"{name}.txt"
    if own.exists():
        own.write_text("\n".join(lines) + "\n")
        return
    having = {package: {*lanes} - {name} for package, lanes in _shared().items()}
    for line in lines:
        having.setdefault(line, set()).add(name)
    used = sorted((package for package, lanes in having.items() if lanes), key=str.lower)
    rows = []
    for package in used:
        name_and_version, digest = package.split(" --hash=")
        rows.append(Shared(name_and_version, digest, tuple(sorted(having[package]))))
    SHARED.write_text(tables.text_of(Shared, rows))


def install(name: str, lane: Lane, folder: Path) -> tuple[Path | None, Path]:
    """The folder with the lane's packages, if it has any, and the one with its tests. Raises LackingError."""
    site = None
    tests = ROOT / "ecosystem" / name.replace("-", "_").replace(".", "_")
    if lane.packages:
        # Named as in an environment: dill, by which datasets takes fingerprints, copies modules that lie elsewhere.
        site = folder / "site-packages"
        lines = requirements(name).splitlines(keepends=True)
        programs = [line for line in lines if line.partition("==")[0] in lane.programs]
        _installed_in(name, folder, "installed", [line for line in lines if line not in programs], "--target", site)
        # pip installs no libraries of a program by --target.
        _installed_in(name, folder, "programs", programs, "--prefix", folder / "programs")
    if lane.source:
        version = next(package for package in lane.packages if package.startswith(f"{lane.source}=="))
        tests = folder / version.replace("==", "-")
        if not tests.exists():
            _pip(
                name,
                f"the source distribution of {version}, whose tests it runs",
                "download",
                "--no-deps",
                "--no-build-isolation",
                "--no-binary",
                ":all:",
                "-d",
                str(folder),
                version,
            )
            with tarfile.open(next(folder.glob(f"{lane.source.replace('-', '[-_]')}*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
    if lane.checkout:
        assert site is not None
        tests = _checkout(name, lane.checkout, folder, site, lane.apart) / lane.inside
    if lane.folder:
        tests = ROOT / lane.folder
    for beside in lane.beside:
        if not (ENVIRONMENT / beside).exists():
            raise LackingError(f"the lane {name} lacks .venv/{beside}; `make .venv/{beside}` installs it")
    if lane.torchvision and not TORCHVISION.exists():
        raise LackingError(f"the lane {name} lacks torchvision; `make .venv/torchvision` installs it")
    return site, tests


def _installed_in(name: str, folder: Path, what: str, lines: list[str], option: str, place: Path) -> None:
    """Packages, a line for each, at a place. The file `what` of the lane's folder says which are there."""
    packages, done = "".join(lines), folder / f"{what}.txt"
    if not packages or (done.exists() and done.read_text() == packages):
        return
    listed = folder / f"requirements-{what}.txt"
    listed.write_text(packages)
    _pip(
        name,
        f"the {len(lines)} packages that {REQUIREMENTS.relative_to(ROOT)} has for it",
        "install",
        "--no-deps",
        "--require-hashes",
        "--upgrade" if option == "--target" else "--ignore-installed",
        option,
        str(place),
        "-r",
        str(listed),
    )
    done.write_text(packages)


def _checkout(name: str, repository: str, folder: Path, site: Path, apart: bool) -> Path:
    """A copy of a repository: of the folder that a variable names, or else of GitHub's commit.

    It is installed in `site` unless `apart`.
    """
    repository, _, commit = repository.partition("@")
    project = repository.partition("/")[2]
    copy = folder / project
    variable = project.replace("-", "_").upper()
    installed = _installed(project, site)
    given = os.environ.get(variable)
    if given:
        if not any((Path(given) / file).exists() for file in ("pyproject.toml", "setup.py")):
            raise LackingError(f"{variable}={given} has no pyproject.toml or setup.py; name a checkout of {repository}")
        commit = _head(given) or commit
    if copy.exists() and installed.exists() and installed.read_text().strip() != commit:
        shutil.rmtree(copy)
        installed.unlink()
    if not copy.exists():
        if given:
            shutil.copytree(given, copy, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info"))
        else:
            copy.mkdir()
            for arguments in (
                ("init", "-q"),
                ("fetch", "-q", "--depth=1", f"https://github.com/{repository}", commit),
                ("checkout", "-q", "FETCH_HEAD"),
            ):
                ended = child.run(["git", "-C", str(copy), *arguments], seconds=PIP_S)
                if ended.code:
                    shutil.rmtree(copy)
                    raise LackingError(
                        f"the lane {name} lacks {repository}, which git could not get: {ended.how}\n{ended.tail}\n"
                        f"Bring a checkout of commit {commit} and name its folder: {variable}=folder."
                    )
    if apart:
        installed.write_text(commit + "\n")
    elif not installed.exists():
        command = [*PIP, "install", "--no-deps", "--upgrade", "--target", str(site), str(copy)]
        version = {"SETUPTOOLS_SCM_PRETEND_VERSION": "0.28.0"}  # a checkout of one commit has no tags
        ended = child.run(command, seconds=PIP_S, env=os.environ | version)
        ended.checked(f"the lane {name} could not install {repository}", LackingError)
        installed.write_text(commit + "\n")
    return copy


def commit_in(repository: str, site: Path) -> tuple[str, str]:
    """The name of a checkout's project, and the commit that is installed in `site`."""
    project = repository.partition("@")[0].partition("/")[2]
    return project, _installed(project, site).read_text().strip()


def _installed(project: str, site: Path) -> Path:
    return site / f"{project.replace('-', '_')}.commit"


def _head(folder: str) -> str:
    """The commit of a checkout; empty for a folder that is none."""
    ended = child.run(["git", "-C", folder, "rev-parse", "HEAD"], seconds=60)
    return "" if ended.code else ended.output.strip()


def _pip(name: str, what: str, *arguments: str) -> None:
    """Run pip, or say what could not be had and how to bring it."""
    ended = child.run([*PIP, *arguments], seconds=PIP_S)
    if ended.code:
        said = "\n".join([*ended.output.strip().splitlines()[-5:], ended.how])
        raise LackingError(
            f"the lane {name} lacks {what}: not in build/ecosystem/{name}, and pip could not get it:\n{said}\n"
            f"Without a network: on a machine with one, `python -m ecosystem {name} --install`, then copy the folder "
            f"build/ecosystem/{name} to the same place here. Or bring the files and name their folder: "
            "PIP_NO_INDEX=1 PIP_FIND_LINKS=folder."
        )
