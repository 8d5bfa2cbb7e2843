"""docs/ci.md's workflow is short and has known steps; the Dockerfile's script has the same commands.

tests/rotating/test_ci.py runs both.
"""

import pytest

from commands import ROOT
from tests import workflow

TEXT = workflow.DOCUMENT.read_text()


def test_the_script_and_the_dockerfile_have_the_steps_of_the_workflow():
    commands = [step.command for step in workflow.steps(TEXT) if step.command]
    script = [line.strip() for line in (ROOT / "release" / "ci" / "steps.sh").read_text().splitlines()]
    assert len(commands) == 2 and set(commands) < set(script)
    dockerfile = (ROOT / "release" / "ci" / "Dockerfile").read_text().splitlines()
    assert {"RUN sh ci/steps.sh install", "CMD sh ci/steps.sh test"} < set(dockerfile)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("    steps:\n", "    steps:\n" + "      - run: true\n" * 3, "at most 10 lines"),
        ("actions/cache@v4", "others/cache@v4", "expected a step"),
        ("- run: ~/venv", "- run: |\n          ~/venv", "expected a step"),
        ("hpu.html tests", "hpu.html ${{ github.ref }}", "without expressions"),
        ("```yaml", "```yml", "expected one yaml block, got 0"),
    ],
)
def test_another_workflow_is_found(old, new, error):
    assert old in TEXT
    with pytest.raises(ValueError, match=error):
        workflow.steps(TEXT.replace(old, new))
