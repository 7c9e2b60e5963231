from PIL import Image, ImageChops

from evaluation.content import catalog, sources
from evaluation.content.annotations import Annotations
from evaluation.editors import drawings
from tools import contact_sheet

PORTRAIT = Annotations(
    face=(0.35, 0.3, 0.65, 0.7),
    eyes=((0.42, 0.44), (0.58, 0.48)),
    mouth=(0.5, 0.6),
    head_top=(0.5, 0.22),
    neck=(0.5, 0.73),
)


def test_a_drawing_is_pasted_only_in_its_spot():
    image = Image.new("RGB", (400, 500), (120, 140, 160))
    changed = ImageChops.difference(image, drawings.draw("glasses", image, PORTRAIT)).getbbox()
    assert changed is not None
    assert 100 < changed[0] < changed[2] < 300
    assert 180 < changed[1] < changed[3] < 290


def test_a_sheet_has_a_cell_for_every_case_and_shows_the_edit():
    suite = catalog.suite("smoke")
    sheet = contact_sheet.sheet(suite)
    columns = min(contact_sheet.COLUMNS, len(suite.cases))
    assert sheet.width == columns * contact_sheet.CELL
    assert sheet.height >= len(suite.cases) / columns * contact_sheet.CELL
    case = suite.cases[0]
    source, pair = suite.image_by_slug[case.image], suite.pair_by_slug[case.pair]
    image = sources.load_prepared(source, suite.size)
    shown = contact_sheet.case_image(image, source, pair)
    outlined = contact_sheet.annotated(image, source.annotations)
    assert ImageChops.difference(image, outlined).getbbox()
    assert ImageChops.difference(shown, outlined).getbbox()
