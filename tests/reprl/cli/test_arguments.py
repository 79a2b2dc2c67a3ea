"""The shared parser: every wrong argument is one sentence with the nearest spelling."""

from pathlib import Path

import pytest

from reprl.cli import main
from reprl.cli.arguments import Key, parse
from reprl.errors import UserError
from reprl.validation import Number

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


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("episods=3", "Did you mean 'episodes'?"),
        ("episodes=0", "at least 1"),
        ("episodes=many", "episodes=many must be a whole number of at least 1"),
        ("episodes=2.5", "must be a whole number"),
        ("sticky=1.5", "from 0 to 1"),
        ("sticky=nan", "sticky=nan must be"),
        ("greedy=maybe", "true or false"),
        ("variants=diagonal", "Did you mean 'diagonals'?"),
        ("variants=", "empty"),
        ("--fast", "no option '--fast'"),
        ("nowhere", "there is no folder 'nowhere'"),
        ("a" * 300, "cannot be reached: File name too long"),
        (f"unknown={'a' * 300}", "no key 'unknown'"),
        ("~nobody-of-this-name/x", "that user has no home folder"),
        (f"step={'1' * 400}", "must be a whole number"),
    ],
)
def test_wrong_arguments_say_what_is_allowed(argument: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        parse("evaluate", [argument], KEYS, "many")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_may_be_longer_than_a_file_name(tmp_path: Path) -> None:
    names = ",".join(["diagonals"] * 60)
    assert len(parse("evaluate", [f"variants={names}"], KEYS, "none")[1]["variants"]) == 60


def test_the_number_of_folders_is_checked(tmp_path: Path) -> None:
    for arguments, folders in (([], "one"), ([str(tmp_path)] * 2, "one"), ([], "many")):
        with pytest.raises(UserError, match="run folder"):
            parse("evaluate", arguments, KEYS, folders)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="takes no folder"):
        parse("list", [str(tmp_path)], KEYS, "none")
    with pytest.raises(UserError, match="given twice"):
        parse("evaluate", ["episodes=1", "episodes=2"], KEYS, "none")


def test_help_lists_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("evaluate", ["--help"], KEYS, "one")
    page = capsys.readouterr().out
    assert caught.value.code == 0
    assert "reprl evaluate DIR" in page
    assert "how many (at least 1, default 20)" in page


def test_an_unknown_command_is_the_users_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no command 'trian'" in error
