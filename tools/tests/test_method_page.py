from tools.method_page import PAGE, page


def test_the_method_in_the_docs_is_the_text_of_the_page():
    assert PAGE.read_text() == page(), "python -m tools.method_page writes it again"
