from evaluation.content import catalog
from tools.datasheet import PAGE, page


def test_the_datasheet_says_what_ships():
    assert PAGE.read_text() == page(catalog.suites()), "python -m tools.datasheet writes it again"
