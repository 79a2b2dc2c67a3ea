"""Six methods of long names in a real browser: the first screen, filters, keys and the explorer."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BOX = "(e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"
FIRST = "impala_with_drac_consistency_on_random_gray_boxes"
ROWS = "[...document.querySelectorAll('.overview .board:first-child .name > span')]"


@pytest.fixture
def page(shared: Any, six: Path) -> Iterator[Any]:
    shared.requests.clear()
    shared.errors.clear()
    shared.resize(1280, 800)
    shared.open(six)
    yield shared
    assert shared.errors == []
    assert [r for r in shared.requests if not r.startswith(("data:", six.as_uri()))] == []


def resized(page: Any, width: int) -> None:
    page.resize(width, 844 if width < 600 else 800)
    page.run("new Promise((done) => setTimeout(done, 200))")


def test_the_finding_and_its_plot_are_on_the_first_screen(page: Any) -> None:
    title = page.run("document.querySelector('h1').innerText")
    assert title.startswith(f"{FIRST} scores most:")
    assert "points on the variants against" in title
    assert title.endswith("on diagonals nobody plays")
    best = page.run("document.querySelector('.best').innerText")
    assert best.startswith("Weakest on diagonals: ")
    assert best.endswith("Where it looks was not measured.")
    how = page.run("document.querySelector('.how').innerText")
    assert "6 methods × 3 seeds" in how
    assert "20 sampled games" in how
    _, top, _, bottom = page.run(f"({BOX})(document.querySelector('.overview'))")
    assert top < 240
    assert bottom < 800
    assert page.run("document.querySelectorAll('.overview img').length") == 5


def test_the_page_is_short_and_small(page: Any, six: Path) -> None:
    assert page.run("document.documentElement.scrollHeight") <= 6000
    assert six.stat().st_size < 5_000_000
    links = page.run(
        "[...document.querySelectorAll('#contents a')].map(a => [a.hash, a.innerText])"
    )
    assert len(links) > 8
    for anchor, _ in links:
        assert page.run(f"Boolean(document.querySelector('{anchor}'))"), anchor


def test_rows_are_named_once_in_the_order_of_the_score(page: Any) -> None:
    names = page.run(f"{ROWS}.map(e => e.textContent)")
    assert names[0] == FIRST
    assert len(names) == len(set(names)) == 6
    assert "plain" in names  # the common part is dropped
    table = (
        "[...document.querySelectorAll('#table-overall tbody tr')].map(r => r.cells[0].innerText)"
    )
    assert page.run(table) == names
    dots = "document.querySelectorAll('.overview .strip')[0].querySelectorAll('circle').length"
    assert page.run(dots) == 3


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overlaps_and_nothing_is_cut(page: Any, width: int) -> None:
    resized(page, width)
    assert page.run("document.documentElement.scrollWidth") <= width
    boxes = page.run(
        "[...document.querySelectorAll('.overview .name > span, .overview .label, "
        f".overview .amount > *, .overview .gap-title > *')].map({BOX})"
    )
    assert len(boxes) > 20
    for i, (l1, t1, r1, b1) in enumerate(boxes):
        assert l1 >= -1
        assert r1 <= width + 1
        for l2, t2, r2, b2 in boxes[:i]:
            over = min(r1, r2) - max(l1, l2) > 1 and min(b1, b2) - max(t1, t2) > 1
            assert not over, (boxes[i], (l2, t2, r2, b2))
    cut = (
        "[...document.querySelectorAll('.overview *, td, th, .names *, figcaption, h1, h2')]"
        ".filter(e => e.clientWidth && getComputedStyle(e).overflowX !== 'visible' "
        "&& e.scrollWidth > e.clientWidth + 1 && !e.matches('.scroll')).map(e => e.className)"
    )
    assert page.run(cut) == []
    outside = (
        "[...document.querySelectorAll('.plot > svg text')].filter(t => { "
        "const b = t.getBoundingClientRect(), p = t.closest('.plot').getBoundingClientRect(); "
        "return b.width && (b.left < p.left - 1 || b.right > p.right + 1); })"
        ".map(t => t.textContent)"
    )
    assert page.run(outside) == []


def test_a_chip_takes_its_method_out_of_plots_tables_and_matrix(page: Any) -> None:
    rows = (
        "[...document.querySelectorAll('#table-{} tbody tr')].filter(r => !r.hidden)"
        ".map(r => r.cells[0].innerText)"
    )
    matrix = "[...document.querySelectorAll('#matrix thead th')].filter(c => !c.hidden).length"
    assert page.run(matrix) == 7
    page.run(f"document.querySelector('button.chip[value=\"{FIRST}\"]').click()")
    assert FIRST not in page.run(f"{ROWS}.map(e => e.textContent)")
    for table in ("overall", "scores", "gap", "twin", "ablation", "comparisons"):
        assert FIRST not in page.run(rows.format(table)), table
    against = "[...document.querySelectorAll('#table-comparisons tbody tr')].filter(r => !r.hidden)"
    assert FIRST not in page.run(f"{against}.map(r => r.cells[1].innerText)")
    assert page.run(matrix) == 6
    page.run(f"document.querySelector('button.chip[value=\"{FIRST}\"]').click()")
    assert page.run(rows.format("overall"))[0] == FIRST


def press(page: Any, key: str, shift: bool = False) -> None:
    named = {" ": "Space", "m": "KeyM"}.get(key, key)
    codes = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Tab": 9, " ": 32}
    common = {"key": key, "code": named, "modifiers": 8 * shift}
    common["windowsVirtualKeyCode"] = codes.get(key, ord(key[0].upper()))
    if len(key) == 1:
        common["text"] = key
    page.call("Input.dispatchKeyEvent", type="keyDown", **common)
    page.call(
        "Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in common.items() if k != "text"}
    )


def test_everything_can_be_reached_and_done_by_keys(page: Any) -> None:
    page.run("document.querySelector('button.chip').focus()")
    press(page, "Tab")
    assert page.run("document.activeElement.matches('button.chip')")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"
    chosen = page.run("document.activeElement.value")
    press(page, " ")
    assert page.run(f"hidden.has({chosen!r})")
    seen = set()
    for _ in range(60):
        press(page, "Tab")
        seen.add(page.run("document.activeElement.id || document.activeElement.className"))
    assert {"variant", "column", "scroll", "variant-one"} <= seen


def test_a_column_chooses_its_variant(page: Any) -> None:
    page.run("document.querySelector('.overview button.column[value=diagonals]').click()")
    assert page.run("document.getElementById('variant').value") == "diagonals"
    pressed = "[...document.querySelectorAll('.overview button.column[aria-pressed=true]')]"
    assert page.run(f"{pressed}.map(b => b.value)") == ["diagonals"]


def test_folded_parts_are_drawn_when_they_open(page: Any) -> None:
    page.run("location.hash = '#survives'")
    page.run("new Promise((done) => setTimeout(done, 200))")
    assert page.run("document.getElementById('survives').open")
    plot = "document.querySelector('[data-plot=points]')"
    assert page.run(f"{plot}.querySelector('svg').clientWidth <= {plot}.clientWidth")
    assert page.run(f"{plot}.querySelectorAll('path.mark').length") == 24


def test_learning_is_drawn_over_steps_and_hours_with_every_seed(page: Any) -> None:
    plot = "document.querySelector('[data-plot=learning]')"
    assert page.run(f"{plot}.querySelectorAll('path.thin').length") == 18
    page.run("document.querySelector('[data-choice=over] button[value=hours]').click()")
    assert "hours of training" in page.run(f"{plot}.textContent")


def pixel(page: Any, canvas: str, x: int, y: int) -> list[int]:
    """The colour of a canvas at a place of the game's own picture."""
    found = page.run(
        f"[...document.getElementById('film-{canvas}').getContext('2d')"
        f".getImageData({3 * x + 1}, {3 * y + 1}, 1, 1).data].slice(0, 3)"
    )
    return [int(v) for v in found]


def decoded(page: Any) -> None:
    page.run(
        "new Promise((done) => { "
        "const at = document.getElementById('film-varied').getContext('2d');"
        " const wait = () => at.getImageData(25, 361, 1, 1).data[1] > 50 ? done() "
        ": setTimeout(wait, 30); wait(); })"
    )


def test_the_explorer_opens_at_the_largest_change(page: Any, synthetic: ModuleType) -> None:
    decoded(page)
    state = page.run("explorer()")
    assert state["agent"] == FIRST
    assert state["variant"] == "green_lines"
    assert state["step"] == synthetic.LOUDEST
    said = page.run("document.getElementById('film-say').innerText")
    assert said.startswith("noop on the clean picture, fire on green_lines")
    y = 52 + 4 * synthetic.LOUDEST
    for screen in ("clean", "varied"):
        assert pixel(page, screen, 82, y) == list(synthetic.RED)
    assert pixel(page, "clean", 20, 121) == [0, 0, 0]
    assert pixel(page, "varied", 20, 121) == list(synthetic.GREEN)  # even attention leaves it green


def test_heat_lies_where_attention_is_and_can_be_taken_away(page: Any) -> None:
    decoded(page)
    place = (42, 105)  # the middle of cell (10, 5)
    assert sum(pixel(page, "varied", *place)) > 300
    assert pixel(page, "clean", *place) == [0, 0, 0]
    page.run("document.getElementById('film-heat').click()")
    assert pixel(page, "varied", *place) == [0, 0, 0]


def test_the_explorer_obeys_keys(page: Any, synthetic: ModuleType) -> None:
    page.run("document.getElementById('film').focus()")
    for key, shift, want in (
        ("ArrowRight", False, synthetic.LOUDEST + 1),
        ("ArrowLeft", True, synthetic.LOUDEST - 9),
        ("End", False, synthetic.STEPS - 1),
        ("Home", False, 0),
        ("m", False, synthetic.LOUDEST),
    ):
        press(page, key, shift)
        assert page.run("explorer().step") == want, key
    press(page, " ")
    assert page.run("explorer().playing")
    press(page, " ")
    assert not page.run("explorer().playing")
    page.run("document.getElementById('film-agent').value = '1'")
    page.run("document.getElementById('film-agent').dispatchEvent(new Event('change'))")
    assert page.run("explorer().agent") != FIRST
    assert page.run("explorer().step") == synthetic.LOUDEST


def test_a_believed_place_is_offered_only_where_a_probe_found_one(page: Any) -> None:
    assert page.run("document.getElementById('film-belief').hidden")
    page.run(
        "(() => { const f = filmData.films[0]; f.belief = { object: 'ball', pictures: [f.truth, "
        "f.truth.map(p => [30.33, 40.33])] }; makeExplorer(filmData); })()"
    )
    decoded(page)
    assert not page.run("document.getElementById('film-belief').hidden")
    assert "believes the ball" in page.run("document.getElementById('film-belief').innerText")
    assert pixel(page, "varied", 37, 40)[2] > 200  # on the ring around (30, 40)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_can_be_read_on_their_ground(page: Any, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    page.call("Emulation.setEmulatedMedia", features=media)
    shown = (
        "[...document.querySelectorAll('.overview .name > span, .overview .amount b, .how, "
        ".overview .legend, nav a, .soft'), document.body]"
        ".map(e => getComputedStyle(e)[e === document.body ? 'backgroundColor' : 'color'])"
    )
    *texts, paper = (channels(colour) for colour in page.run(shown))
    page.call("Emulation.setEmulatedMedia", features=[])
    assert len(texts) > 15
    assert min(contrast(text, paper) for text in texts) >= 4.5


def channels(colour: str) -> list[float]:
    return [float(v) for v in re.findall(r"[\d.]+", colour)[:3]]


def contrast(first: list[float], second: list[float]) -> float:
    """WCAG's ratio of two colours."""

    def light(colour: list[float]) -> float:
        linear = [
            v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4
            for v in (channel / 255 for channel in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(first), light(second)))
    return (high + 0.05) / (low + 0.05)
