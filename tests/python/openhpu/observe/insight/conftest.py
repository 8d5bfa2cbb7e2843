import json
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from tests.processes import clean_environment, run_python


def command(folder, options, script, environment):
    """Of `openhpu run OPTIONS... SCRIPT...`: Python's arguments, the folder, and the environment."""
    own = {"OPENHPU_SMI_FOLDER": "off", "PT_HPU_RECIPE_CACHE_CONFIG": ",,", "TMPDIR": str(folder)}
    return ["-m", "openhpu", "run", *options, *script], folder, clean_environment(folder, **own | environment)


@pytest.fixture
def begin(tmp_path):
    """Start `openhpu run OPTIONS... script.py`, where the script's text is given; the process."""

    def start(code, *options):
        (tmp_path / "script.py").write_text(code)
        arguments, _, environment = command(tmp_path, options, ["script.py"], {})
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=environment, text=True, **pipes)

    return start


@pytest.fixture
def openhpu_run(tmp_path):
    """Run it to its end, with a script and its arguments: a Result, and with --json what was `seen`."""

    def run(code, *options, script=("script.py",), **environment):
        (tmp_path / "script.py").write_text(code)
        result = run_python(*command(tmp_path, options, script, environment), fails=None)
        result.seen = json.loads(result.out.splitlines()[-1]) if "--json" in options else None
        return result

    return run


def line_of(script, mark):
    """The number of the line of a script that has a mark."""
    (number,) = [i for i, text in enumerate(script.splitlines(), 1) if mark in text]
    return number


class Page(HTMLParser):
    """A page whose elements are closed in order; its tags, what it loads, and its texts."""

    VOID = frozenset({"meta", "rect", "path", "br"})

    def __init__(self, html):
        super().__init__()
        self.tags = set()
        self.loads = []
        self.texts = []
        self._open = []
        self.feed(html)
        self.close()
        assert not self._open

    @property
    def text(self):
        return " ".join(self.texts)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
