"""The model of the tests that serve one."""

import pytest

from examples.serve_llm import tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama with made weights."""
    path = tmp_path_factory.mktemp("llama")
    tiny_model("llama", path)
    return path
