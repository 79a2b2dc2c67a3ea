"""docs/representation.md says what results/representation holds, and how it was measured."""

from benchmarks import representation
from reprl.cli import commands as known
from reprl.runs.agents import shipped


def test_the_page_is_what_was_measured() -> None:
    text = representation.PAGE.read_text(encoding="utf-8")
    assert representation.page(text) == text


def test_every_shipped_agent_is_measured_by_commands_that_exist() -> None:
    for name in shipped():
        for words in representation.commands(name):
            assert words[0] in known()
        found = representation.measured(name, "probes")
        assert set(found["variant"]) == {"original", *representation.VARIANTS}
        truth = found[(found["source"] == "truth") & (found["label"] == "ball_x")]
        assert truth["r2"].min() > 0.99


def test_controls_of_the_published_numbers_hold() -> None:
    for name in shipped():
        rows = representation.measured(name, "interventions")
        for thing in ("ball", "paddle"):
            blind = rows[rows["method"] == f"scripted blind_to={thing}"]
            assert (blind.loc[blind["object"] == thing, "flips"] == 0).all()
        layers = representation.measured(name, "layers")
        last = layers[(layers["layer"] == "action_net") & (layers["js"] > 1e-4)]
        assert last["policy_returned"].round(6).eq(1).all()
