"""docs/ci.md's workflow is short, and the Dockerfile has its steps."""

import re

from commands import ROOT


def test_the_workflow_is_short_and_the_dockerfile_has_its_steps():
    workflow = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL).group(1)
    install, test = re.findall(r"^ +- run: (.*)$", workflow, re.MULTILINE)
    assert len(workflow.splitlines()) <= 10
    dockerfile = (ROOT / "release" / "ci" / "Dockerfile").read_text().splitlines()
    assert f"RUN {install}" in dockerfile and f"CMD {test}" in dockerfile
