from evaluation.content import catalog
from evaluation.content.people import GROUPS, UNSAID, distribution, is_portrait


def test_there_are_at_least_thirty_portraits_and_every_one_is_described():
    portraits = [image for image in catalog.source_images() if is_portrait(image)]
    assert len(portraits) >= 30
    for group, counts in distribution(portraits).items():
        if group != "sex":  # of a toddler nobody need know it
            assert UNSAID not in counts, group
        assert sum(counts.values()) == len(portraits)


def test_portraits_are_as_different_as_could_be_had():
    found = distribution(catalog.source_images())
    assert found["sex"]["woman"] >= 15
    assert found["sex"]["man"] >= 15
    assert set(found["age"]) == set(GROUPS["age"])
    assert set(found["skin"]) == set(GROUPS["skin"])
    assert found["made"]["real"] >= 15


def test_animals_and_things_are_not_counted():
    pictures = [image for image in catalog.source_images() if not is_portrait(image)]
    assert all(not counts for counts in distribution(pictures).values())
