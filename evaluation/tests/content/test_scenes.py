import importlib.util

import numpy as np
import pytest

from evaluation.content import catalog
from evaluation.content.scenes import meshes, textures
from evaluation.content.scenes.mouldings import blend, carve, mould, sphere

needs_renderer = pytest.mark.skipif(
    not (importlib.util.find_spec("mitsuba") and importlib.util.find_spec("oidn")),
    reason="mitsuba and oidn are not installed (pip install .[scenes])",
)


def volume(mesh):
    """The enclosed volume, by the divergence theorem; its sign tells which way faces look."""
    a, b, c = (mesh.points[mesh.triangles[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        (meshes.ball(1.0, 128), 4 / 3 * np.pi),
        (meshes.cylinder(1.0, 2.0, segments=256), 2 * np.pi),
        (meshes.torus(2.0, 0.5, 256), 2 * np.pi**2 * 2.0 * 0.5**2),
        (meshes.box(1.0, 2.0, 3.0, 0.001), 6.0),
        (meshes.prism([(0, 0), (1, 0), (0, 1)], 2.0), 1.0),
    ],
)
def test_solids_have_the_volume_geometry_says(mesh, expected):
    assert abs(volume(mesh)) == pytest.approx(expected, rel=0.02)


def test_a_moulded_ball_is_a_ball():
    mesh = mould(sphere((0.1, 0, 0), 1.0), (-1.3, -1.3, -1.3), (1.5, 1.3, 1.3), 60)
    radii = np.linalg.norm(mesh.points - [0.1, 0, 0], axis=1)
    assert radii == pytest.approx(1.0, abs=0.01)


def test_blending_adds_and_carving_takes_away():
    one, two = sphere((0, 0, 0), 1.0), sphere((1.2, 0, 0), 0.7)
    low, high = (-1.5, -1.5, -1.5), (2.5, 1.5, 1.5)
    alone = abs(volume(mould(one, low, high)))
    assert abs(volume(mould(blend([one, two], 0.1), low, high))) > alone * 1.1
    assert abs(volume(mould(carve(one, two, 0.05), low, high))) < alone * 0.95


def test_a_lathe_keeps_sharp_corners_by_doubling_them():
    sharp = meshes.lathe([(0, 0), (1, 0), (1, 1), (0, 1)], 16)
    round_ = meshes.lathe([(0, 0), (1, 0), (1, 1), (0, 1)], 16, corner=180)
    assert len(sharp.points) - len(round_.points) == 2 * 17


def test_a_written_mesh_is_a_binary_ply_of_the_right_length(tmp_path):
    mesh = meshes.ball(1.0, 16)
    mesh.write(tmp_path / "a.ply")
    header, body = (tmp_path / "a.ply").read_bytes().split(b"end_header\n", 1)
    assert header.startswith(b"ply\nformat binary_little_endian 1.0\n")
    assert len(body) == len(mesh.points) * 20 + len(mesh.triangles) * 13


@pytest.mark.parametrize(
    "texture",
    [
        textures.wood((0.2, 0.1, 0.1), (0.8, 0.6, 0.4), 1, size=128),
        textures.marble((0.9, 0.9, 0.9), (0.3, 0.3, 0.3), 1, size=128),
        textures.tiles((0.6, 0.3, 0.2), (0.8, 0.8, 0.8), 4, 8, 1, 0.5, size=128),
        textures.gingham((0.8, 0.2, 0.2), (1, 1, 1), 4, size=128),
        textures.landscape_painting(1, size=128),
    ],
)
def test_textures_are_colours_and_not_one_colour(texture):
    assert texture.shape == (128, 128, 3)
    assert texture.min() >= 0
    assert texture.max() <= 1
    assert texture.std() > 0.02


def test_the_same_seed_gives_the_same_noise():
    assert np.array_equal(textures.noise(64, 16, 3), textures.noise(64, 16, 3))
    assert not np.array_equal(textures.noise(64, 16, 3), textures.noise(64, 16, 4))


@needs_renderer
def test_every_rendered_picture_of_the_catalog_has_its_scene():
    from evaluation.content.scenes.__main__ import SCENES

    rendered = {image.slug for image in catalog.source_images() if image.made == "rendered"}
    assert rendered <= set(SCENES)


@needs_renderer
def test_a_scene_renders_small_and_nearly_the_same_twice():
    from evaluation.content.scenes import __main__ as command
    from evaluation.content.scenes.studio import use_mitsuba

    use_mitsuba()
    one, two = (command.SCENES["cupcakes"]().picture(4, 0.0625) for _ in range(2))
    assert one.size == (64, 48)
    pixels, again = (np.asarray(image, dtype=np.float64) for image in (one, two))
    assert np.abs(pixels - again).mean() < 3
    assert pixels.std() > 20


@needs_renderer
def test_an_unknown_scene_is_answered_with_the_known_ones(capsys):
    from evaluation.content.scenes import __main__ as command

    with pytest.raises(SystemExit):
        command.main(["moonbase"])
    assert "no scene moonbase; there are fruit, teapot" in capsys.readouterr().err
