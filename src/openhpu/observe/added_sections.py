"""Sections of the report and tracks of a trace that another distribution adds, where OPENHPU_PREDICT asks for one.

An entry point of the group `openhpu.sections` makes a section of its request, a text. Without a request nothing is
loaded.
"""

import sys
from importlib.metadata import entry_points
from typing import Any, Protocol

_GROUP = "openhpu.sections"
_NAME = "predict"


class SectionError(ValueError):
    """There is no such section, or its request is wrong; the text says what to do."""


class Section(Protocol):
    """What an entry point returns."""

    def start(self) -> None:
        """Observe this process from now on."""

    def document(self, complete: bool) -> dict[str, Any] | None:
        """What the report shows; None as long as there is nothing. `complete`: nothing will follow.

        `title` and `notes` are texts, `facts` are names with values, `lanes` are names with spans in microseconds, and
        `tables` are titles with heads and rows.
        """

    def track(self, base_ns: int) -> list[dict[str, Any]]:
        """Events of a trace whose times count from `base_ns`, nanoseconds since 1970."""


def make(request: str) -> Section:
    """The section, before it starts. Raises SectionError."""
    for point in entry_points(group=_GROUP, name=_NAME):
        try:
            section: Section = point.load()(request)
        except Exception as error:
            raise SectionError(f"OPENHPU_PREDICT={request}: {error}") from error
        return section
    raise SectionError(
        f"OPENHPU_PREDICT={request} needs the distribution openhpu-predict, which is not installed; in a clone of "
        "OpenHPU: pip install ./openhpu-predict"
    )


_started: list[Section] = []


def start(request: str) -> None:
    """Begin the section of this process. What is wrong is a message, and not the script's error."""
    try:
        section = make(request)
        section.start()
        _started.append(section)
    except Exception as error:
        print(f"openhpu: {error}", file=sys.stderr)


def add(section: Section) -> None:
    """A section of this process that needs no start."""
    _started.append(section)


def documents(complete: bool) -> list[dict[str, Any]]:
    """The sections of a report."""
    return [found for section in _started if (found := section.document(complete)) is not None]


def tracks(base_ns: int) -> list[dict[str, Any]]:
    """The tracks' events; see `Section.track`."""
    return [event for section in _started for event in section.track(base_ns)]
