"""The build and the checks of a release: `make versions`, `make wheel`. Not installed with openhpu."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "versions"
