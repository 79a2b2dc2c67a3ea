"""README's film is of an agent with a mask as soon as one ships, and never of a wrong name."""

from pathlib import Path

import pytest

from tools import readme_pictures as pictures

ROOT = Path(__file__).parents[1]


def test_an_agent_with_a_mask_is_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pictures.second() in {*pictures.MASKED, "imitation_background"}
    names = ("imitation", "imitation_background")
    monkeypatch.setattr(pictures, "shipped", lambda: dict.fromkeys(names, Path()))
    assert pictures.second() == "imitation_background"
    more = (*names, "imitation_taught", "other")
    monkeypatch.setattr(pictures, "shipped", lambda: dict.fromkeys(more, Path()))
    assert pictures.second() == "imitation_taught"
    assert pictures.second("other") == "other"
    with pytest.raises(SystemExit, match="no agent 'imitaton' ships: choose from imitation"):
        pictures.second("imitaton")


def test_every_part_of_the_film_has_words_and_readme_shows_it() -> None:
    assert set(pictures.HEATS) == {"mask", "perturbation"}
    text = (ROOT / "README.md").read_text()
    for name in ("agents.png", "agents.gif"):
        assert f"docs/images/{name}" in text
        assert (ROOT / "docs" / "images" / name).stat().st_size < 600_000


def test_the_second_agent_loses_no_score_where_the_first_does() -> None:
    first, second = (pictures.scores(name) for name in pictures.AGENTS)
    assert first["green_lines"] < 0.1 * first["original"]  # caught by the lines
    assert second["green_lines"] > 0.8 * second["original"]
