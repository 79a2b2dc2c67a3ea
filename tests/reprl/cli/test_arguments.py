"""The shared parser: every wrong argument is one sentence with the nearest spelling."""

from pathlib import Path

import pytest

from reprl.cli.arguments import Key, parse
from reprl.validation import Number
from tests.helpers import Commands, refuses

KEYS = {
    "variants": Key(["original"], "which", kind="list", choices=lambda: ["original", "diagonals"]),
    "episodes": Key(20, "how many", kind="int", allowed=Number(1)),
    "sticky": Key(0.0, "sticky actions", kind="float", allowed=Number(0, 1)),
    "greedy": Key(False, "best action", kind="bool"),
    "step": Key(None, "which checkpoint", kind="int", allowed=Number(0)),
    "out": Key("here", "where"),
}


def test_values_are_typed_and_defaults_fill_the_rest(tmp_path: Path) -> None:
    folders, values = parse(
        "evaluate",
        [str(tmp_path), "variants=diagonals,original", "episodes=1_000", "greedy=yes"],
        KEYS,
        "one",
    )
    assert folders == [tmp_path]
    assert values == {
        "variants": ["diagonals", "original"],
        "episodes": 1000,
        "sticky": 0.0,
        "greedy": True,
        "step": None,
        "out": "here",
    }
    assert parse("evaluate", ["step=null"], KEYS, "none")[1]["step"] is None


WRONG = {
    "episods=3": ["'episods'", "'episodes'"],
    "episodes=0": ["episodes=0", "at least 1"],
    "episodes=many": ["episodes=many", "at least 1"],
    "episodes=2.5": ["episodes=2.5", "whole number"],
    "sticky=1.5": ["sticky=1.5", "0 to 1"],
    "sticky=nan": ["sticky=nan", "0 to 1"],
    "greedy=maybe": ["greedy=maybe", "true or false"],
    "variants=diagonal": ["diagonal", "'diagonals'"],
    "variants=": ["variants", "empty"],
    "--fast": ["'--fast'"],
    "nowhere": ["'nowhere'"],
    "a" * 300: ["aaa", "File name too long"],
    f"unknown={'a' * 300}": ["'unknown'"],
    "~nobody-of-this-name/x": ["~nobody-of-this-name"],
    f"step={'1' * 400}": ["step=111", "whole number"],
}


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_arguments_say_what_is_allowed(argument: str) -> None:
    with refuses(*WRONG[argument]):
        parse("evaluate", [argument], KEYS, "many")


def test_a_value_may_be_longer_than_a_file_name(tmp_path: Path) -> None:
    names = ",".join(["diagonals"] * 60)
    assert len(parse("evaluate", [f"variants={names}"], KEYS, "none")[1]["variants"]) == 60


def test_the_number_of_folders_is_checked(tmp_path: Path) -> None:
    for arguments, folders in (([], "one"), ([str(tmp_path)] * 2, "one"), ([], "many")):
        with refuses("run folder"):
            parse("evaluate", arguments, KEYS, folders)  # type: ignore[arg-type]
    with refuses("list", "no folder"):
        parse("list", [str(tmp_path)], KEYS, "none")
    with refuses("episodes", "twice"):
        parse("evaluate", ["episodes=1", "episodes=2"], KEYS, "none")


def test_help_lists_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("evaluate", ["--help"], KEYS, "one")
    page = capsys.readouterr().out
    assert caught.value.code == 0
    assert "reprl evaluate DIR" in page
    assert "how many (at least 1, default 20)" in page


def test_an_unknown_command_is_the_users_input(commands: Commands) -> None:
    commands.refuse(["trian"], "'trian'", "'train'")


def test_the_other_commands_word_for_a_key_is_taken_too(tmp_path: Path) -> None:
    from reprl.cli import attention, evaluate, preview

    for command, keys, word, key in (
        ("evaluate", evaluate.KEYS, "variant=green_lines", "variants"),
        ("attention", attention.KEYS, "variants=green_lines", "variant"),
        ("evaluate", evaluate.KEYS, f"output={tmp_path}", "out"),
        ("preview", preview.KEYS, f"out={tmp_path}", "output"),
    ):
        text = word.partition("=")[2]
        found = parse(command, [word], keys, "none")[1][key]
        assert found in ([text], Path(text))
    with refuses("variants"):
        parse("evaluate", ["variant=original", "variants=original"], evaluate.KEYS, "none")
