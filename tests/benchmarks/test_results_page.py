"""README.md and docs/results.md say what results/ say."""

import re

from benchmarks import results_page


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("**", ""))


def test_the_tables_are_those_of_the_results() -> None:
    page = results_page.PAGE.read_text()
    assert results_page.made(page) == page


def test_every_sentence_with_a_number_is_computed() -> None:
    for file, sentences in results_page.sentences().items():
        text = plain((results_page.ROOT / file).read_text())
        for sentence in sentences:
            assert plain(sentence) in text, f"{file} must say: {sentence}"


def test_a_changed_number_is_seen() -> None:
    page = results_page.PAGE.read_text()
    assert results_page.made(page.replace("| plain PPO | 1", "| plain PPO | 2", 1)) == page
