"""Datasheets: origins of images, and people in portraits."""

from dataclasses import replace

from evaluation.content import catalog
from evaluation.content.datasheet import (
    LABELS,
    POSES,
    UNLABELLED,
    concentrations,
    datasheet,
    is_portrait,
)


def test_portraits_are_labelled_and_diverse():
    found = datasheet(catalog.source_images())["Portraits"]
    assert all(UNLABELLED not in counts for group, counts in found.items() if group != "sex")
    assert found["sex"]["woman"] >= 15
    assert found["sex"]["man"] >= 15
    assert list(found["age"]) == list(LABELS["age"])
    assert list(found["skin"]) == list(LABELS["skin"])
    assert list(found["pose"]) == list(POSES)
    assert found["origin"]["Photograph"] >= 15


def test_every_image_is_counted_once_by_each_attribute():
    images = catalog.source_images()
    found = datasheet(images)["Images"]
    assert all(sum(counts.values()) == len(images) for counts in found.values())
    assert found["colour"]["black and white"] >= 10


def test_animals_and_things_are_no_portraits():
    images = [image for image in catalog.source_images() if not is_portrait(image)]
    assert list(datasheet(images)) == ["Images"]


def test_more_than_a_third_from_one_origin_or_source_of_faces_gives_a_warning():
    images = catalog.source_images()
    faces = [replace(image, made="real", contains=("person",)) for image in images if image.pose]
    others = [replace(image, made="rendered") for image in images if not image.pose]
    even = [*faces[:8], *others[:16]]
    even = [replace(image, source_url=f"https://{n % 4}.org/") for n, image in enumerate(even)]
    assert concentrations(even[:12]) == [
        "Photograph: 8 of 12 images, more than a third from one origin"
    ]
    one = [replace(image, source_url="https://www.one.org/a") for image in faces[:4]]
    assert concentrations([*one, *others[:8]]) == [
        "Render: 8 of 12 images, more than a third from one origin",
        "one.org: 4 of 4 portraits, more than a third from one source",
    ]
