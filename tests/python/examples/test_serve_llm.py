"""What `python -m examples.serve_llm --check` says."""

from examples import serve_llm


def test_missing_packages(monkeypatch, tmp_path):
    packages = tmp_path / "packages.txt"
    packages.write_text("numpy==0.0.1 --hash=sha256:0\nno-such-package==1.0 --hash=sha256:0\n")
    monkeypatch.setattr(serve_llm, "_PACKAGES", packages)
    said = serve_llm.missing()[-2:]
    assert said[0].startswith("numpy is ")
    assert "; tested with 0.0.1" in said[0]
    assert said[1] == "no-such-package is missing: pip install --no-deps no-such-package==1.0"
