"""The report as files: what it says, that its three forms agree, and that nothing breaks it."""

import csv
import html
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from reprl.analysis.definitions import PLOTS
from reprl.analysis.report import write_report
from reprl.cli import main

pytestmark = pytest.mark.slow  # writes reports


class Tables(HTMLParser):
    """Every table of a page as rows of (text, sort value)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, str]]]] = {}
        self.rows: list[list[tuple[str, str]]] | None = None
        self.sort: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "table":
            name = str(known["id"])
            own = name.startswith("table-")  # the matrix is drawn from the comparisons
            self.rows = self.tables.setdefault(name.removeprefix("table-"), []) if own else None
        elif tag == "tr" and self.rows is not None:
            self.rows.append([])
        elif tag == "td" and self.rows is not None:
            self.sort = known["data-sort"]
            self.rows[-1].append(("", str(self.sort)))
        elif tag == "small" and self.rows is not None and self.sort is not None:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self.sort = None

    def handle_data(self, data: str) -> None:
        if self.sort is not None and self.rows is not None:
            text, sort = self.rows[-1][-1]
            self.rows[-1][-1] = (text + data, sort)


def test_html_markdown_and_csv_hold_the_same_numbers(written: Path) -> None:
    tables = Tables(written.read_text()).tables
    folder = written.parent / "tables"
    assert set(tables) == {p.stem for p in folder.glob("*.csv")}
    assert {"overall", "scores", "gap", "twin", "attention", "ablation"} <= set(tables)
    for name, rows in tables.items():
        body = [r for r in rows if r]
        lines = (folder / f"{name}.md").read_text().splitlines()
        lines = [line for line in lines if line.startswith("| ")][2:]
        cells = [[html.unescape(c.strip()) for c in line.strip("|").split(" | ")] for line in lines]
        assert [[t.strip() for t, _ in row] for row in body] == cells, name
        values = [list(r.values()) for r in csv.DictReader((folder / f"{name}.csv").open())]
        assert len(values) == len(body), name
        for row, raw in zip(body, values, strict=True):
            numbers = [s for _, s in row if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", s)]
            known = {float(v) for v in raw if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", v)}
            assert {float(n) for n in numbers} <= known, name


def test_numbers_are_those_of_the_games(sweep: Path, written: Path) -> None:
    games = pd.concat(pd.read_csv(p) for p in sweep.glob("ppo-nature-*/evaluation/episodes.csv"))
    own = games[(games["variant"] == "green_lines") & (games["severity"] == 0.5)]
    want = own.groupby("run")["episode_return"].mean().mean()
    scores = pd.read_csv(written.parent / "tables" / "scores.csv").set_index("method")
    assert scores.loc["ppo nature", "green_lines"] == pytest.approx(want)


def test_the_report_says_what_matters(written: Path) -> None:
    page = written.read_text().replace("<wbr>", "")
    text = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    assert re.search(
        r"Scores \d+\.\d on the clean game \(3 seeds\) and \d+\.\d \[\d+\.\d, \d+\.\d\] on the "
        r"variants, \d+ % of what it learned",
        text,
    )
    assert "Exploratory: each interval is of one comparison" in text
    assert "as few as 3: below 5 read the runs themselves" in text
    assert not re.search(r"95 % (interval|band)", text)
    assert "stuck on green_lines" in text
    for label in ("too easy", "informative", "too hard"):
        assert label in text
    assert "reprl train algo=ppo augmentation=none seed=1" in text


def test_figures_are_written(sweep: Path, tmp_path: Path) -> None:
    write_report([sweep], tmp_path)
    names = {p.name for p in (tmp_path / "figures").iterdir()}
    for stem in ("retention", "gap", "score", "learning", "severity_green_lines", "twin"):
        assert {f"{stem}.svg", f"{stem}.pdf"} <= names
    assert {"overview.svg", "profile.pdf", "learning.svg"} <= names
    for file in (tmp_path / "figures").iterdir():  # the same data gives the same bytes
        assert not any(word in file.read_bytes() for word in (b"<dc:date>", b"/CreationDate"))
    drawn = (tmp_path / "figures" / "overview.svg").read_text()
    assert "softplus + boxes" in drawn
    for words in (PLOTS["overview"]["x"], "minus nature"):  # the labels of the page
        assert words in drawn


def test_the_page_asks_nobody_for_anything(written: Path) -> None:
    page = written.read_text()
    asked = re.sub(r"""<a href="[^":]*">video</a>""", "", page)  # a link asks only when clicked
    asked = re.sub(r"""href="#[a-z-]+\"""", "", asked)  # a place in this page
    assert not re.search(r"""(src|href)=["'](?!data:)""", asked)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_videos_are_linked_where_they_lie(runs: Path, tmp_path: Path) -> None:
    odd = runs / "javascript:1 #?"
    (runs / "ppo-softplus-boxes-1").rename(odd)
    (runs / "ppo-softplus-boxes-2" / "attention" / "green_lines.mp4").unlink()
    path, _ = write_report([runs], tmp_path / "some" / "out", figures=False)
    links = re.findall(r"""<a href="([^"]*)">video""", path.read_text())
    assert len(links) == 2
    found = {(path.parent / unquote(link)).resolve() for link in links}
    names = (odd, runs / "ppo-softplus-boxes-3")
    assert found == {(run / "attention" / "green_lines.mp4").resolve() for run in names}
    assert all(link.startswith("../") and ":" not in link for link in links)


def test_faithfulness_and_history_stand_beside_the_pictures(sweep: Path, written: Path) -> None:
    table = pd.read_csv(written.parent / "tables" / "faithfulness.csv")
    row = table[(table["test"] == "deletion") & (table["order"] == "random")].iloc[0]
    files = sweep.glob("*/attention/faithfulness.csv")
    measured = pd.concat(pd.read_csv(f) for f in files)
    own = measured[(measured["test"] == "deletion") & (measured["condition"] == "attention")]
    assert (row["n_seeds"], row["variant"]) == (3, "green_lines")
    assert row["area"] == pytest.approx(own["value"].mean())
    assert row["advantage"] == pytest.approx(0.2)
    assert row["area"] - row["rival"] == pytest.approx(0.2)
    page = written.read_text()
    assert page.count('class="light" src="data:image/svg+xml;base64,') == 3
    assert page.count("over training</span>") == 3


def test_agents_no_better_than_random_are_not_ranked(runs: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for path in runs.glob("ppo-nature-*/evaluation/episodes.csv"):
        table = pd.read_csv(path)
        table.assign(episode_return=rng.poisson(1.7, len(table))).to_csv(path, index=False)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    page = html.unescape(path.read_text())
    assert "Is not better than random play on the clean game" in page
    assert "1 other is no better than random" in page
    overall = pd.read_csv(tmp_path / "out" / "tables" / "overall.csv").set_index("method")
    assert np.isnan(overall.loc["ppo nature", "rank"])
    assert overall.loc["ppo softplus + boxes", "rank"] == 1
    assert not (tmp_path / "out" / "tables" / "comparisons.csv").exists()


def test_one_seed_gets_no_interval_and_no_test(synthetic: ModuleType, tmp_path: Path) -> None:
    synthetic.write_sweep(tmp_path / "runs", seeds=1, episodes=4)
    path, _ = write_report([tmp_path / "runs"], tmp_path / "out", figures=False)
    gap = pd.read_csv(tmp_path / "out" / "tables" / "gap.csv")
    assert gap["gap"].notna().all()
    assert gap[["gap_low", "gap_high", "retention_low"]].isna().all(axis=None)
    assert "A single training run has no interval" in path.read_text()


def test_without_evaluations_there_are_learning_curves(runs: Path, tmp_path: Path) -> None:
    for folder in [*runs.glob("*/evaluation"), *runs.glob("*/attention")]:
        shutil.rmtree(folder)
    path, results = write_report([runs], tmp_path / "out", figures=False)
    assert len(results.warnings) == 6
    page = path.read_text()
    assert "Was trained but not evaluated yet." in page
    assert "Learning curves" in page
    assert 'id="scores"' not in page


def test_without_the_random_player_retention_is_unknown(runs: Path, tmp_path: Path) -> None:
    shutil.rmtree(runs / "baselines")
    path, results = write_report([runs], tmp_path / "out", figures=False)
    assert any("random player was not measured" in w for w in results.warnings)
    assert "unknown because random play was not measured" in path.read_text()
    gap = pd.read_csv(tmp_path / "out" / "tables" / "gap.csv")
    assert gap["retention"].isna().all()


def test_names_with_html_are_only_text(runs: Path, tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.evil_names(runs)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    page = path.read_text()
    assert "<img src=x" not in page
    assert page.count("</script>") == 2
    assert "<img src=x" not in (tmp_path / "out" / "tables.md").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert f"m{synthetic.EVIL}" in [m["name"] for m in json.loads(data[1])["methods"]]


def test_the_page_stays_small(runs: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for folder in runs.glob("*/attention"):
        for i in range(20):  # 12 MB of pictures just small enough to be kept as they are
            noise = rng.integers(0, 256, (220, 220, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / f"noise{i}.png", compress_level=0)
        noise = rng.integers(0, 256, (900, 1600, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "large.png", compress_level=0)
        (folder / "broken.png").write_bytes(b"no picture")
    path, results = write_report([runs], tmp_path / "out", figures=False)
    assert path.stat().st_size < 5_000_000
    assert any("left out to keep the page small" in w for w in results.warnings)
    assert any("broken.png is no readable picture" in w for w in results.warnings)


def test_the_command(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(sweep), f"out={tmp_path / 'r'}", "figures=false"]) == 0
    assert "6 runs, 1920 games" in capsys.readouterr().out
    assert (tmp_path / "r" / "report.html").is_file()
    assert main(["report", str(tmp_path / "r")]) == 2
    assert "no runs in" in capsys.readouterr().err
    assert main(["report", str(sweep), f"out={tmp_path / 'r' / 'report.html'}"]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main(["report", str(sweep), "ot=x"]) == 2
    assert "Did you mean 'out'?" in capsys.readouterr().err
