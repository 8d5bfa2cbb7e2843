import pytest

from tests.processes import clean_environment


@pytest.fixture
def environment_of_smi(tmp_path):
    """Of a process that shows itself in, or reads, a folder of this test alone."""
    return clean_environment(tmp_path, OPENHPU_SMI_FOLDER=str(tmp_path))
