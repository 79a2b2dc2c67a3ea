"""The page as it is laid out, on a laptop and on a phone: nothing is cut, nothing overprinted."""

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("width", [1280, 390])]

BOX = "(e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"


def opened(page: Any, width: int, script: str) -> Any:
    page.resize(width)
    page.run("new Promise((done) => setTimeout(done, 150))")
    return page.run(script)


def test_axis_titles_leave_the_numbers_alone(page: Any, width: int) -> None:
    page.run(
        "data.seeds.forEach(s => { for (const v in s.scores) s.scores[v] *= 100; }); "
        "[...data.learning.steps, ...data.severity].forEach(s => "
        "s.points.forEach(p => { p[1] *= 100; })); drawAll()"
    )
    pairs = opened(
        page,
        width,
        f"[...document.querySelectorAll('.axis.title')].map(t => [({BOX})(t), "
        f"[...t.parentElement.querySelectorAll('.tick[text-anchor=end]')].map({BOX})])",
    )
    assert len(pairs) == 4
    for title, numbers in pairs:
        assert numbers
        assert all(title[2] <= left for left, *_ in numbers)
    titles = page.run("[...document.querySelectorAll('.axis.title')].map(t => t.textContent)")
    assert sum("points a game" in t for t in titles) == 3


def test_words_stay_in_their_plots(page: Any, width: int) -> None:
    names = "data.seeds.map(s => { s.scores['a_variant_of_a_long_name'] = 3; return 0; })"
    page.run(f"{names}; variant = 'a_variant_of_a_long_name'; drawAll()")
    outside = opened(
        page,
        width,
        "[...document.querySelectorAll('.plot text')].filter(t => { "
        "const b = t.getBoundingClientRect(), p = t.closest('.plot').getBoundingClientRect(); "
        "return b.left < p.left - 1 || b.right > p.right + 1 || b.bottom > p.bottom + 1; })"
        ".map(t => t.textContent)",
    )
    assert outside == []


def test_lines_carry_the_names_of_their_methods(page: Any, width: int) -> None:
    names = opened(
        page,
        width,
        "['slopes', 'learning', 'severity'].map(p => [...document.querySelectorAll("
        "`[data-plot=${p}] .direct`)].map(t => t.textContent).sort())",
    )
    assert names == [["nature", "softplus + boxes"]] * 3


def test_cells_keep_their_words(page: Any, width: int) -> None:
    page.run("document.querySelectorAll('td.method').forEach(c => c.append('-of-some-length'))")
    cut = "[...document.querySelectorAll('td')].filter(c => c.scrollWidth > c.clientWidth + 1)"
    assert opened(page, width, f"{cut}.map(c => c.textContent)") == []


def test_the_line_below_a_row_runs_under_the_first_column(page: Any, width: int) -> None:
    # Collapsed borders belong to the table and scroll away below a column that stays.
    style = "getComputedStyle(document.querySelector('#table-scores td:first-child'))"
    assert opened(page, width, f"{style}.borderBottomWidth") == "1px"
    assert page.run("getComputedStyle(document.querySelector('table')).borderCollapse") == (
        "separate"
    )


def test_more_methods_than_fit_can_be_seen_to_go_on(page: Any, width: int) -> None:
    chips = "document.querySelector('nav.bar .chips')"
    hidden = opened(page, width, f"{chips}.scrollWidth > {chips}.clientWidth")
    assert hidden == (width == 390)
    if hidden:
        assert "gradient" in page.run(f"getComputedStyle({chips}).maskImage")
