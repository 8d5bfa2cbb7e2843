from openhpu import settings


def test_every_default_is_a_value_that_the_row_allows():
    for row in settings.ROWS:
        if row.default not in (None, "", False):
            assert row.parse(row.show_default()) == row.default, row.name


def test_every_effective_row_says_when_it_is_read():
    assert all(bool(row.when) == row.effective for row in settings.ROWS)
