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


# Parts of sentences whose numbers say how something was done, not what was found.
SETTINGS = (
    "Python 3.11 to 3.13",
    "NatureCNN, 61,440 steps, seeds 11 / 12 / 13 and, where there are more, 14 / 15",
    "three to seven minutes of one core a run",
    "Mean of 20 games for each seed",
    "(random play is 0, the clean game 1), with 95 % intervals over runs and games",
    "mean points of the seeds' games, 20 a variant and seed",
    "of PPO with six methods, three seeds and 200,000 steps each, and [three agents at 300,000",
    "each 200,704 steps",
    "a tenth of the 21 x 21 cells of a mask",
    "47,104 steps with what moved within the stack as target, then 98,304 with",
    "for 301,056 steps: 35 minutes of one core, beside other work",
    "because it makes no point for 4,500 steps, with few bricks left",
    "labels that keep the paddle below the ball, in 35 minutes of one core",
    "in 600 looks of 8 games",
    "under a soft 21x21 mask that nobody teaches",
    "400 looks of 8 games",
    "on pictures of 44x44",
    "which with the lower of two rates had learned nothing after 60,000 steps",
    "Crossings of 16 chickens during training",
    "within 41,000 steps",
    "random play makes 1.4 points there",
    "in 5 games each",
    "(of 20 on the seven that its sentence names)",
    "of 10 under the hard mask of motion and the mask taught by the truth",
    "intervals that exclude 0 and are not corrected for their number",
    "By imitation, 20,480 steps on the variant either way, mean of 10 games",
    "Agents on frames, 20,480 steps, seeds 11 / 12 / 13, mean of 10 games",
    "for as many steps, 35 minutes of one core beside other work",
    "is seed 13, the best of three, of",
    "(KL divergence, its area over the share of pixels, 95 % interval over games)",
    "mean points of 8 games, cut after 2,000 steps, in which 5 % of the pixels are missing",
    "are seed 1 of",
    ", 400 steps)",
    "the published form at severity 0.5",
    "mean of 10 games",
    "it was cut to 200,000",
    "zero-shot, seeds 1 / 2 / 3",
    "49,152 steps on 200 easy levels, with and without DrAC, in CoinRun also PPG and IDAAC",
    "CoinRun mean of 100 games, StarPilot and random play of 60",
    "seed by seed from 1 on, or of one seed",
    "in Pong (49,152 steps) and Freeway (32,768 steps), PPO in Pong (1,755,136 steps",
    "pictures of 44x44) and in Boxing (61,440 steps)",
    "mean of 8 games (Freeway: 4, PPO in Pong: 12)",
    "Its first 834,560 steps had a learning rate and clip range that fell towards 0 at 1,500,160",
    "from there on they fall towards 10 million",
    "are seed 1 of the sweep above",
    "Mean of 20 games",
    "Mean of 20 games, seed by seed from 1 on, and the share",
    "that is kept on the mean of the four variants, with 95 % intervals over runs and games",
    "mean of 10 or 20 games a variant and seed",
    "by PPO at 200,000 steps",
    "all curves still rise at 200,000 steps",
    "one run each; mean of 20 games and standard error",
    "within the noise of 20 games",
    "seed 11 of",
    "planned with 500,000 steps for each run, 9 million in all",
    "Mean of 20 full games each",
    "Where they look: share of looks with the peak on the object, seeds 1 / 2 / 3",
    "with seed 1 a block over the middle of the lower half",
    "is nearly 1 everywhere",
    "the mean of the last 100 full games",
    "rates falling to 0 over the 200,000 steps",
    "over 600 looks in 8 games",
    "at 21x21 cells and after 300,000 steps",
)
ELSEWHERE = (  # held by tests/test_shipped_numbers.py
    "One sees frames: ",
    "The other sees the difference to a slow memory",
)


def prose(text: str) -> str:
    """A page without code, tables and what stands between marks: the tables' tests hold those."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"<!-- (\w[\w ]*) -->.*?<!-- end \1 -->", "", text, flags=re.S)
    text = re.sub(r"^(\||#|!\[).*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", text)  # links and names of things
    return plain(text)


def unheld(file: str, text: str) -> list[str]:
    """The sentences with a number that nobody computes."""
    left = prose(text)
    for sentence in results_page.sentences()[file]:
        left = left.replace(prose(sentence).strip(), "held")
    # the phrase alone: another number in its sentence is not excused
    for part in sorted(SETTINGS, key=len, reverse=True):
        left = left.replace(part, "known")
    found = re.split(r"(?<=[.:;!?])\s+(?=[A-Z\[-])", left)
    numbered = [s for s in found if re.search(r"\d", re.sub(r"SB3|A2C|Baselines3", "", s))]
    return [s for s in numbered if not any(part in s for part in ELSEWHERE)]


def test_no_sentence_has_a_number_that_nobody_computes() -> None:
    for file in ("README.md", "docs/results.md"):  # other pages have numbers of other sources
        text = (results_page.ROOT / file).read_text()
        assert unheld(file, text) == [], f"{file}: compute it in results_page.sentences()"
        assert unheld(file, text + "\n\nDrAC keeps 99 % of it.") == ["DrAC keeps 99 % of it."]
        both = f"It is {SETTINGS[1]}, and DrAC keeps 99 % of it."
        assert unheld(file, f"{text}\n\n{both}") == ["It is known, and DrAC keeps 99 % of it."]


def test_a_changed_number_is_seen() -> None:
    page = results_page.PAGE.read_text()
    assert results_page.made(page.replace("| plain PPO | 1", "| plain PPO | 2", 1)) == page
