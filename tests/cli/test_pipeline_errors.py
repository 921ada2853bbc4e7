"""Wrong inputs of pipelines: the first line that is printed is the sentence, and at most five follow."""

from __future__ import annotations

import pytest
from tests.checkout import needs_checkout

from odradek.cli import main

pytestmark = needs_checkout  # the examples are not in the wheel: `make check` runs these tests

LINES_MAX = 6
SHOP = "event_time,event_type,product_id,user_id\n2019-10-01 00:00:00 UTC,view,1,5\n"


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Where the files are that the inputs name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "shop.csv").write_text(SHOP)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "names.json").write_text("[1]")
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "no_run.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def run(:\n")
    (tmp_path / "needs.py").write_text("import no_such_module\n")
    (tmp_path / "stages-output").mkdir()


OWN = ("activity", "--input", "shop.csv")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("stage",), "there is no pipeline 'stage'. Did you mean stages?"),
        (("gone.py",), "there is no file gone.py"),
        (("no_run.py",), "no_run is no pipeline: it has no function run"),
        (("broken.py",), "broken.py cannot be loaded: "),
        (("needs.py",), "needs.py needs no_such_module, which is not installed"),
        (("stages",), "stages-output exists"),
        (("stages", "--conf", "x"), "Invalid value for '--conf': 'x': write spark.NAME=VALUE"),
        (("stages", "--grace", "soon"), "Invalid value for '--grace'"),
        (("stages", "--flights", "-5"), "argument --flights: must be an integer of at least 1"),
        (
            ("metrics", "--seconds", "nan"),
            "argument --seconds: must be a number of seconds above 0",
        ),
        (("logs", "--input", "-", "--follow"), "--follow needs files: the standard input cannot"),
        (("logs", "--input", "shop.csv", "--seconds", "3"), "--seconds needs --follow"),
        (("activity", "--lateness", "1 day"), "argument --lateness: must be a time like 90s"),
        (("activity", "--no-such-option"), "unrecognized arguments: --no-such-option"),
        (("activity", "--input"), "argument --input: expected at least one argument"),
        (("activity", "--input", "gone.csv"), "there is no file or directory gone.csv"),
        (("activity", "--input", "nothing"), "there are no files in nothing"),
        (("activity", "--input", "other.csv"), "other.csv lacks columns (visitor: user_id or"),
        ((*OWN, "--topic", "a"), "--input and --topic exclude each other"),
        ((*OWN, "--columns", "who=user_id"), "--columns names 'who': there are visitor, action"),
        ((*OWN, "--columns", "visitor="), "--columns 'visitor=': write NAME=COLUMN"),
        ((*OWN, "--columns", "gone.json"), "--columns 'gone.json' is neither NAME=COLUMN nor a"),
        ((*OWN, "--columns", "no.json"), "no.json is no JSON: "),
        ((*OWN, "--columns", "names.json"), 'names.json must have an object like {"visitor"'),
        ((*OWN, "--format", "xml"), "argument --format: invalid choice: 'xml'"),
        ((*OWN, "--delimiter", '"'), "--delimiter '\"': give one character, tab or ::"),
        ((*OWN, "--stages", "view,,cart"), "--stages 'view,,cart': write ACTION,ACTION"),
        (("activity", "--header", "a,b"), "--header needs --input or --topic"),
        (("suggestions", "--liked", "much"), "argument --liked: must be a number; it is 'much'"),
        (("metrics", "--alert", "cpu"), "argument --alert: must be like METRIC>0.9; it is 'cpu'"),
        (("metrics", "--scrape", "localhost:9100"), "--scrape 'localhost:9100': an address begins"),
        (("commitlog", "--key", "id,", "--input", "shop.csv"), "--key 'id,': write COLUMN,COLUMN"),
        (("stages", "--reference", "shop.csv"), "--reference needs --input or --topic"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_first_line_is_the_sentence(words, sentence, capsys):
    try:
        code = main.run(["pipeline", "run", *words])
    except SystemExit as ended:  # of the options of the pipeline itself
        code = ended.code
    out, err = capsys.readouterr()
    first, *more = (out + err).strip().splitlines()
    assert code in {1, 2}
    assert first.startswith(f"Error: {sentence}")
    assert len(more) < LINES_MAX
    assert "Traceback" not in err
