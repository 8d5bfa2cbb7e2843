"""Code lines are what is neither blank nor a comment nor a docstring; the repository keeps to its budget."""

import pytest

from commands import code_lines


@pytest.mark.parametrize(
    "text, number",
    [
        ("", 0),
        ('"""Docstring."""\n\nimport a  # comment\n# comment\n', 1),
        ('x = """\na\n"""\n', 3),
        ('def f():\n    """Two\n    lines."""\n    return (\n        1,\n    )\n', 4),
        ('class A:\n    "Short."\n    b = 1\n', 2),
    ],
)
def test_python(text, number):
    assert code_lines.of_python(text) == number


@pytest.mark.parametrize(
    "text, number",
    [
        ("// a\n\n/* b\n c */\nint x;  // d\n", 1),
        ('char* s = "/*";\nint y;\n/* a */ int z;\n', 3),
        ("'\"'; // \"\n", 1),
    ],
)
def test_cpp(text, number):
    assert code_lines.of_cpp(text) == number


def test_the_repository_is_within_its_budget(capsys):
    assert code_lines.main(["--check"]) == 0, capsys.readouterr().out
