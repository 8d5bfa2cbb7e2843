"""docs/ci.md's workflow is short and has known steps; the Dockerfile's script has the same commands.

tests/rotating/test_ci.py runs both.
"""

from commands import ROOT
from tests import workflow

TEXT = workflow.DOCUMENT.read_text()


def test_the_script_and_the_dockerfile_have_the_steps_of_the_workflow():
    commands = [step.command for step in workflow.steps(TEXT) if step.command]
    script = [line.strip() for line in (ROOT / "release" / "ci" / "steps.sh").read_text().splitlines()]
    assert len(commands) == 2
    assert set(commands) < set(script)
    dockerfile = (ROOT / "release" / "ci" / "Dockerfile").read_text().splitlines()
    assert {"RUN sh ci/steps.sh install", "CMD sh ci/steps.sh test"} < set(dockerfile)
