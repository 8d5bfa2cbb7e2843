"""Size is counted in syntax: line breaks, comments and docstrings do not count."""

import sys

import pytest

from commands import code_size
from commands.code_size import Size


@pytest.mark.parametrize(
    "text, number",
    [
        ("", 1),  # the module
        ("x = 1\n", 4),  # module, assignment, name, constant
        ("x = (\n    1\n)  # comment\n", 4),
        ('"""Docstring."""\nx = 1\n', 4),
        ('def f():\n    """Two\n    lines."""\n    return 1\n', 5),  # module, function, arguments, return, constant
    ],
)
def test_python_is_counted_in_nodes(text, number):
    assert code_size.python_nodes(text) == number


@pytest.mark.parametrize(
    "text, number",
    [
        ("int x;", 3),
        ("// a\n\n/* b\n c */\nint\nx;  // d\n", 3),
        ('char* s = "/* no comment */";', 6),
        ("a->b::c << 1'000 && x != 0x1.8p52;", 12),
        ("'\"'; // \"\n", 2),
    ],
)
def test_cpp_is_counted_in_tokens(text, number):
    assert code_size.cpp_tokens(text) == number


def test_a_file_counts_by_its_kind():
    assert code_size.size_of("src/a.tsv", "one two\nthree\n") == Size(words=3)
    assert code_size.size_of("src/gaudi-native-ops.csv", "one two\n") == Size()
    assert code_size.size_of("src/operators.pyi", "x: int\n") == Size()
    assert code_size.size_of("README.md", "one two\n") == Size()


@pytest.mark.parametrize(
    "name, text, tokens",
    [
        ("a.py", '"""Docstring."""\n# comment\nx = 1\n\ny = f(2)\n', 4.5),  # 3 and 6 tokens
        ("a.cpp", "// comment\nint x;\nint y = 2;\n", 4.0),
        ("a.tsv", "a b\n", 0.0),
    ],
)
def test_density(name, text, tokens):
    assert code_size.tokens_a_line(name, text) == tokens


def test_a_new_distribution_has_a_row():
    sizes = code_size.groups({"one/pyproject.toml": "a = 1\n", "one/src/one/x.py": "", "benchmarks/y.py": ""})
    assert sizes["one"] == Size(nodes=1, words=3)
    assert sizes["tools"] == Size(nodes=1)


def test_a_passed_ceiling_is_named():
    said = code_size.over({"csrc": Size(tokens=11), "new": Size()}, {"csrc": {"tokens": 10}})
    assert said == [
        "csrc has 11 tokens; the ceiling in pyproject.toml is 10",
        "new has no ceiling in pyproject.toml, [tool.openhpu.code-size]: add a row",
    ]


def test_a_long_function_is_named():
    body = "".join(f"    x{i} = {i}\n" for i in range(100))  # three nodes each
    texts = {"src/a.py": f"def short(): pass\n\n\ndef long():\n{body}", "tests/a.py": f"def test_a():\n{body}"}
    assert code_size.long_functions(texts) == ["src/a.py:4: long has 302 nodes; a function has at most 300"]


def test_no_function_is_too_long():
    assert code_size.long_functions(code_size.files()) == []


def test_each_row_of_the_repository_has_a_ceiling():
    assert set(code_size.groups(code_size.files())) == set(code_size.ceilings())


def test_another_python_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(SystemExit):
        code_size.main([])
    assert "this is Python 3.13" in capsys.readouterr().err
