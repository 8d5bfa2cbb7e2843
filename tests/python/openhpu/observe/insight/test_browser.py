"""The page in a real browser, without scripts, as wide as a phone and as a desk's screen.

The page lies in a frame in which scripts do not run; the page around it measures what the browser made of it.
"""

import html
import json
import shutil
import subprocess

import pytest

from tests.python.openhpu.observe.insight.test_planted import PLANTED, line

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE, DESK = 390, 1200

_MEASURE = """
const frame = document.querySelector("iframe"), width = Number(frame.width);
frame.onload = () => {
  const page = frame.contentDocument, shown = e => e.getBoundingClientRect().height > 0;
  const closed = e => e.closest("details:not([open])") !== null;
  const cells = [...page.querySelectorAll("td")].filter(e => !closed(e));
  const inside = e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= width + 0.5; };
  document.querySelector("pre").textContent = JSON.stringify({
    scroll: page.documentElement.scrollWidth,
    cells: cells.length,
    hidden: cells.filter(e => !shown(e) || !inside(e)).map(e => e.textContent),
    labels: cells.map(e => frame.contentWindow.getComputedStyle(e, "::before").content),
    headings: [...page.querySelectorAll("h2")].filter(shown).map(e => e.textContent),
    lanes: [...page.querySelectorAll("rect.d")].filter(e => e.getBoundingClientRect().width > 0).length,
    colour: frame.contentWindow.getComputedStyle(page.querySelector("rect.d")).fill,
    text: page.body.innerText,
  });
};
frame.srcdoc = document.querySelector("template").innerHTML;
"""


@pytest.fixture
def shown(tmp_path):
    """What the browser makes of a page of a given width."""

    def look(page, width):
        outer = tmp_path / f"outer-{width}.html"
        outer.write_text(
            '<!DOCTYPE html><meta charset="utf-8"><pre></pre>'
            f'<iframe sandbox="allow-same-origin" width="{width}" height="900" frameborder="0"></iframe>'
            f"<template>{page}</template><script>{_MEASURE}</script>"
        )
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000", "--virtual-time-budget=10000",
            "--dump-dom", outer.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(html.unescape(done.stdout.partition("<pre>")[2].partition("</pre>")[0]))

    return look


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
def test_the_page_fits_a_phone_and_a_desk_without_scripts(openhpu_run, tmp_path, shown):
    run = openhpu_run(PLANTED, "--mode", "lazy", "--report", "page.html")
    assert run.code == 0, run.err
    page = (tmp_path / "page.html").read_text()
    phone, desk = shown(page, PHONE), shown(page, DESK)
    for width, seen in ((PHONE, phone), (DESK, desk)):
        assert seen["scroll"] <= width
        assert seen["cells"] > 10
        assert seen["hidden"] == []
        assert seen["lanes"] > 0
        assert seen["colour"] in ("rgb(47, 143, 107)", "rgb(76, 186, 143)")  # of the light or the dark style
        assert {"Advice", "Timeline", "Recompilations", "CPU fallbacks", "Blocking reads"} <= set(seen["headings"])
        for mark in ("RECOMPILATION", "FALLBACK", "READ", "SPIKE"):
            assert f"script.py:{line(mark)}" in seen["text"]
    assert set(desk["labels"]) == {"none"}
    assert '"Line"' in phone["labels"]  # on a phone each cell says which column it is of
    assert "none" not in phone["labels"]
