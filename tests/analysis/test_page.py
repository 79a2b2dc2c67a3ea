"""The page in a real browser: sort, choose a variant, switch methods; no request, no error."""

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reprl.analysis.report import write_report

pytestmark = pytest.mark.slow

COLUMN = "[...document.querySelectorAll('#table-scores tbody tr')].map(r => r.cells[{}].innerText)"


def show_all(page: Any) -> None:
    """Unfold every part and switch the untrained players on."""
    page.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.run("document.querySelectorAll('button.chip[aria-pressed=false]').forEach(c => c.click())")


def click_heading(page: Any, table: str, index: int) -> None:
    page.run(f"document.querySelectorAll('#table-{table} th button')[{index}].click()")


def test_every_plot_is_drawn(page: Any) -> None:
    boxes = page.run("document.querySelectorAll('[data-plot]').length")
    assert boxes == 8
    drawn = "document.querySelectorAll('[data-plot] > svg, .overview > .board').length"
    assert page.run(drawn) == boxes
    assert page.run("document.querySelectorAll('[data-plot=points] path.mark').length") == 8
    assert "NaN" not in page.run("document.querySelector('main').innerHTML")


def test_tables_sort_by_number_and_by_name(page: Any) -> None:
    show_all(page)
    methods = COLUMN.format(0)
    click_heading(page, "scores", 2)
    by_score = page.run(methods)
    assert by_score[-2:] == ["nature", "random"]
    assert by_score[0].startswith("scripted")
    heading = "document.querySelectorAll('#table-scores th')[2].getAttribute('aria-sort')"
    assert page.run(heading) == "descending"
    click_heading(page, "scores", 2)
    assert page.run(methods)[:2] == ["random", "nature"]
    assert page.run(heading) == "ascending"
    click_heading(page, "scores", 0)
    assert page.run(methods) == sorted(by_score)


def test_missing_numbers_sort_last_either_way(page: Any) -> None:
    show_all(page)
    page.run("chooseVariant('*')")
    column = "[...document.querySelectorAll('#table-gap tbody tr')].map(r => r.cells[7].innerText)"
    for _ in range(2):
        click_heading(page, "gap", 7)
        values = page.run(column)
        missing = values.count("–")
        assert missing == 8
        assert values[-missing:] == ["–"] * missing


def choose(page: Any, variant: str) -> None:
    page.run(
        "(() => { const s = document.getElementById('variant'); "
        f"s.value = '{variant}'; s.dispatchEvent(new Event('change')); }})()"
    )


SHOWN = "[...document.querySelectorAll('{} [data-variant]')].filter(e => !e.hidden)"


def test_choosing_a_variant_changes_tables_plots_and_pictures(page: Any) -> None:
    assert page.run("document.getElementById('variant').value") == "green_lines"
    pictures = SHOWN.format(".gallery") + ".map(f => f.querySelector('img').naturalWidth)"
    assert page.run(pictures) == [492, 640] * 3  # each sheet, and its history
    choose(page, "diagonals")
    rows = SHOWN.format("#table-gap tbody") + ".map(e => e.dataset.variant)"
    assert set(page.run(rows)) == {"diagonals"}
    assert page.run("document.querySelector('.chosen').innerText") == "diagonals"
    assert page.run("document.getElementById('variant-one').value") == "diagonals"
    assert "diagonals" in page.run("document.querySelector('[data-plot=slopes]').textContent")
    choose(page, "*")
    assert len(page.run(rows)) == 2 * 8
    show_all(page)
    assert len(page.run(rows)) == 5 * 8


def test_attention_shows_a_variant_it_has_and_says_so(page: Any) -> None:
    instead = "document.getElementById('attention-instead')"
    assert page.run(f"{instead}.hidden")
    choose(page, "diagonals")
    words = "Attention was not measured on diagonals. This is green_lines."
    assert page.run(f"{instead}.innerText") == words
    assert page.run("document.querySelector('#attention .chosen').innerText") == "green_lines"
    shown = SHOWN.format("#attention") + ".map(e => e.dataset.variant)"
    assert set(page.run(shown)) == {"green_lines"}
    assert page.run("document.querySelectorAll('[data-plot=attention] path.mark').length") == 5
    choose(page, "original")
    assert page.run(f"{instead}.hidden")
    assert set(page.run(shown)) == {"original"}


TICKS = "[...document.querySelectorAll('[data-plot=attention] .tick:not(.strong)')]"
BALL = "data.attention.filter(a => a.object === 'ball')"


def test_lag_is_drawn_in_steps(page: Any) -> None:
    page.run("document.querySelector('[data-choice=metric] button[value=lag]').click()")
    plot = "document.querySelector('[data-plot=attention] {}')"
    assert page.run(plot.format(".axis") + ".textContent").startswith("lag: agent steps")
    assert page.run("document.querySelectorAll('[data-plot=attention] path.mark').length") == 1
    assert "×" not in "".join(page.run(TICKS + ".map(t => t.textContent)"))
    page.run(f"{BALL}.forEach(a => {{ a.metric = 'energy'; }}); drawAll()")
    assert "no map there follows" in page.run(plot.format("").strip() + ".textContent")


def test_nothing_on_the_object_is_zero_times_chance(page: Any) -> None:
    page.run(f"{BALL}.forEach(a => {{ a.value = 0; a.low = 0; a.high = 0; }}); drawAll()")
    labels = page.run(TICKS + ".map(t => t.textContent)")
    assert labels[0] == "0×"
    place = TICKS + "[0].getBBox()"
    middle = page.run(f"{place}.x + {place}.width / 2")
    mark = "document.querySelector('[data-plot=attention] path.mark').getBBox()"
    assert page.run(f"{mark}.x + {mark}.width / 2") == pytest.approx(middle, abs=1)


def test_labels_of_the_ratio_axis_are_true_and_differ(page: Any) -> None:
    near = "a.value = a.chance * (0.84 + 0.07 * i); a.low = a.high = null;"
    page.run(f"data.attention.forEach((a, i) => {{ i %= 6; {near} }}); drawAll()")
    ticks = page.run(TICKS + ".map(t => [+t.getAttribute('x'), parseFloat(t.textContent)])")
    assert len(ticks) > 3
    assert len({label for _, label in ticks}) == len(ticks)
    chance = page.run(
        "+document.querySelector('[data-plot=attention] .reference').getAttribute('x1')"
    )
    (x0, first), (x1, last) = ticks[0], ticks[-1]
    assert first < 1 < last
    for x, label in ticks:  # a logarithmic axis through chance
        want = np.log(label) / np.log(last / first) * (x1 - x0)
        assert x - chance == pytest.approx(want, abs=0.5)


def test_choosing_what_a_plot_shows(page: Any) -> None:
    axis = "document.querySelector('[data-plot=points] .axis').textContent"
    assert page.run(axis).startswith("retention")
    page.run("document.querySelector('[data-choice=points] button[value=gap]').click()")
    assert page.run(axis).startswith("gap")
    twin = "document.querySelector('[data-plot=twin] .axis').textContent"
    assert "JS divergence" in page.run(twin)
    page.run("document.querySelector('[data-choice=measure] button[value=flip]').click()")
    assert "flipped" in page.run(twin)


def test_methods_switch_on_and_off(page: Any) -> None:
    show_all(page)
    chips = "[...document.querySelectorAll('button.chip')]"
    page.run(f"{chips}.slice(2).forEach(c => c.click())")
    marks = "document.querySelectorAll('[data-plot=points] path.mark').length"
    page.run("document.querySelector('button.chip').click()")
    assert page.run(marks) == 4
    page.run("[...document.querySelectorAll('button.chip')].slice(1, 2).forEach(c => c.click())")
    text = page.run("document.querySelector('[data-plot=points]').innerText")
    assert "scripted blind_to=distractor have data here, switched off above" in text


def test_hovering_shows_the_numbers(page: Any) -> None:
    page.run(
        "document.querySelector('[data-plot=points] .hit').dispatchEvent("
        "new PointerEvent('pointerover', {bubbles: true, clientX: 300, clientY: 300}))"
    )
    tip = page.run("document.getElementById('tip').innerText")
    assert tip.startswith("nature on constant_rectangle")
    assert "3 seeds" in tip
    page.run(
        "document.querySelector('[data-plot=learning] .hit').dispatchEvent("
        "new PointerEvent('pointermove', {bubbles: true, clientX: 400, clientY: 300}))"
    )
    assert "training steps" in page.run("document.getElementById('tip').innerText")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_never_scrolls_sideways(page: Any, width: int) -> None:
    page.resize(width)
    page.run("new Promise((done) => setTimeout(done, 150))")
    assert page.run("document.documentElement.scrollWidth") <= width
    plots = "Math.max(...[...document.querySelectorAll('.plot svg')].map(s => s.clientWidth))"
    assert page.run(plots) <= width
    too_small = "[...document.querySelectorAll('.tick')].some(t => t.getBBox().height < 9)"
    assert not page.run(too_small)


def test_names_with_html_do_nothing(
    sweep: Path, tmp_path: Path, shared: Any, synthetic: ModuleType
) -> None:
    runs = Path(shutil.copytree(sweep, tmp_path / "runs"))
    synthetic.evil_names(runs)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    shared.requests.clear()
    shared.errors.clear()
    shared.open(path)
    shared.run("chooseVariant('*')")
    assert shared.run("document.querySelectorAll('img[src=x]').length") == 0
    assert shared.run("document.querySelectorAll('script').length") == 2
    assert shared.errors == []
    assert [r for r in shared.requests if not r.startswith(("data:", path.as_uri()))] == []
