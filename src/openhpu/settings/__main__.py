"""Print docs/environment.md: `python -m openhpu.settings > docs/environment.md`."""

from openhpu.settings.document import markdown

print(markdown(), end="")
