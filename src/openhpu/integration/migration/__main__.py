"""Print docs/migration.md: `python -m openhpu.integration.migration > docs/migration.md`."""

from openhpu.integration.migration.document import markdown

print(markdown(), end="")
