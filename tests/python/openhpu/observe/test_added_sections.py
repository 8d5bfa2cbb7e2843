import pytest

from openhpu.observe import added_sections

CODE = """
class Section:
    def __init__(self, request):
        if request == "bad":
            raise ValueError("bad weather")
        self.request = request
    def start(self):
        if self.request == "late":
            raise OSError("too late")
    def document(self, complete):
        return {"title": self.request} if complete else None
    def track(self, base_ns):
        return [{"ts": base_ns}]
"""


@pytest.fixture
def weather(tmp_path, monkeypatch):
    """A distribution that makes the section."""
    info = tmp_path / "openhpu_predict-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openhpu-predict\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[openhpu.sections]\npredict = openhpu_sky:Section\n")
    (tmp_path / "openhpu_sky.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(added_sections, "_started", [])
    return info


def test_a_section_is_started_and_asked(weather):
    assert added_sections.documents(True) == added_sections.tracks(7) == []
    added_sections.start("sunny")
    assert added_sections.documents(True) == [{"title": "sunny"}]
    assert added_sections.documents(False) == []
    assert added_sections.tracks(7) == [{"ts": 7}]


@pytest.mark.parametrize("request_, message", [("bad", "OPENHPU_PREDICT=bad: bad weather"), ("late", "too late")])
def test_an_error_is_a_message(weather, capsys, request_, message):
    added_sections.start(request_)
    assert message in capsys.readouterr().err
    assert added_sections.documents(True) == []


def test_a_section_that_is_not_installed(weather):
    (weather / "entry_points.txt").write_text("")
    with pytest.raises(added_sections.SectionError, match="OPENHPU_PREDICT=x needs the distribution openhpu-predict"):
        added_sections.make("x")
