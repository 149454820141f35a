"""The command `outrider review`."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from outrider.interfaces.cli import run

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TABLE = """title,abstract,doi,label_included
Otters in rivers,Otters eat fish. It rained a lot. The river was long and the fish were few.,10.5555/w.1,1
Badgers in woods,Badgers dig holes.,10.5555/w.2,0
Otters at sea,They float on their backs in groups.,10.5555/w.3,
Voles in meadows,Voles eat grass in summer.,10.5555/w.4,
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_REVIEW__FOLDER", str(tmp_path / "reviews"))
    monkeypatch.setenv("OUTRIDER_LIBRARY__URI", str(tmp_path / "library"))
    monkeypatch.setenv("OUTRIDER_SYSTEMATIC__FOLDER", str(tmp_path / "runs"))
    monkeypatch.setenv("OUTRIDER_THREADS__URI", str(tmp_path / "threads.sqlite"))
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("OUTRIDER_REVIEW__REVIEWER", "ann")
    (tmp_path / "papers.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["review", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["review", *arguments]) == 2
    return capsys.readouterr().err


def test_a_review_from_its_import_to_its_exports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(folder / "papers.csv")
    assert call(capsys, "new", "otters", "-q", "what do otters eat", "--reason", "wrong animal")["reasons"] == ["wrong animal"]
    assert (report := call(capsys, "import", "otters", table))["records"] == 4
    assert (report["duplicates"], report["labels"], report["first"]) == (0, 2, 1)
    again = call(capsys, "import", "otters", table)
    assert (again["records"], again["duplicates"], again["labels"]) == (4, 4, 0)
    assert call(capsys, "label", "otters", "10.5555/W.3", "include")["states"] == {"3": "include"}
    assert call(capsys, "label", "otters", "8", "exclude", "-r", "wrong animal")["states"] == {"4": "exclude"}
    assert run(["review", "status", "otters"]) == 0
    out = capsys.readouterr().out
    assert "4 works in 8 records" in out
    assert "1 excluded: wrong animal" in out
    status = call(capsys, "status", "otters")
    assert (status["included"], status["excluded"], status["unscreened"]) == (2, 2, 0)
    assert status["stop"][1:] == [
        "All records are screened: nothing is missed.",
        "All records are screened; recall is 100% of the 2 relevant ones.",
        "Next: you may stop.",
    ]
    assert call(capsys, "label", "otters", "4", "undo")["states"] == {"4": "unscreened"}
    assert [one["name"] for one in call(capsys, "list")["reviews"]] == ["otters"]
    for name, content in (
        ("x.csv", ",include,,papers.csv,"), ("x.ris", "N1  - ASReview_relevant"), ("x.md", "| Records identified | 8 |"),
        ("x.json", '"records_included": 2'),
    ):  # fmt: skip
        assert run(["review", "export", "otters", "-o", str(folder / name)]) == 0
        assert content in (folder / name).read_text(encoding="utf-8")
    assert run(["review", "export", "otters", "-o", str(folder / "x.asreview")]) == 0
    assert run(["review", "export", "otters", "-o", str(folder / "x.csljson")]) == 0
    for name in ("x.csv", "x.ris", "x.asreview", "x.csljson"):
        call(capsys, "new", name.replace(".", "-"))
        copied = call(capsys, "import", name.replace(".", "-"), str(folder / name))
        assert (copied["records"], copied["duplicates"], copied["labels"]) == (8, 4, 3), name
    capsys.readouterr()
    assert "to confirm" in fail(capsys, "delete", "otters")
    assert run(["review", "delete", "otters", "--yes"]) == 0
    assert "no review 'otters'" in fail(capsys, "status", "otters")


def test_a_part_has_each_work_once_with_what_its_duplicates_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, abstract in (("bare", ""), ("full", "AB  - They eat eels.\nM3  - Retracted Publication\n")):
        text = f"TY  - JOUR\nTI  - Otters of Loch Ness and their prey\nAU  - Bell, A\nDO  - 10.5555/n.1\n{abstract}ER  - \n"
        (folder / f"{name}.ris").write_text(text, encoding="utf-8")
    call(capsys, "new", "otters")
    assert run(["review", "import", "otters", str(folder / "bare.ris"), str(folder / "full.ris")]) == 0
    call(capsys, "label", "otters", "1", "include")
    for arguments, count in ((("--only", "include"), 1), ((), 2)):
        assert run(["review", "export", "otters", *arguments, "-o", str(folder / "x.csv")]) == 0
        rows = list(csv.DictReader((folder / "x.csv").read_text(encoding="utf-8").splitlines()))
        assert (len(rows), rows[0]["abstract"], rows[0]["included"]) == (count, "They eat eels.", "1")
        assert rows[0]["notices"].startswith("Retracted")


def test_files_with_one_name_are_told_apart_by_their_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ovid/2024", "scopus/2024", "wos"):
        (folder / name).mkdir(parents=True)
        (folder / name / "export.csv").write_text(TABLE, encoding="utf-8")
    call(capsys, "new", "otters")
    for name in ("papers.csv", "ovid/2024/export.csv", "wos/export.csv", "ovid/2024/export.csv"):
        call(capsys, "import", "otters", str(folder / name))
    sources = [one["source"] for one in call(capsys, "status", "otters")["imports"]]
    assert sources == ["papers.csv", "2024/export.csv", "wos/export.csv", "2024/export.csv"]
    call(capsys, "import", "otters", str(folder / "scopus/2024/export.csv"))
    assert run(["review", "export", "otters", "-o", str(folder / "x.md")]) == 0
    text = (folder / "x.md").read_text(encoding="utf-8")
    assert [name for name in ("ovid/2024/export.csv", "scopus/2024/export.csv", "- from wos/export.csv") if name not in text] == []


def test_conflicting_labels_and_damaged_files_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "papers.csv"))
    log = folder / "reviews" / "otters" / "decisions.jsonl"
    before = log.read_bytes()
    (folder / "twice.csv").write_text(TABLE + "Otters in rivers,Otters eat fish.,10.5555/w.1,0\n", encoding="utf-8")
    assert "contradict each other" in fail(capsys, "import", "otters", str(folder / "twice.csv"))
    (folder / "other.csv").write_text(TABLE.replace("10.5555/w.2,0", "10.5555/w.2,1"), encoding="utf-8")
    assert "labelled include, and the review has exclude" in fail(capsys, "import", "otters", str(folder / "other.csv"))
    ris = "TY  - JOUR\nTI  - A study of voles\nN1  - ASReview_relevant\nN1  - ASReview_irrelevant\nER  - \n"
    (folder / "both.ris").write_text(ris, encoding="utf-8")
    assert "contradict each other" in fail(capsys, "import", "otters", str(folder / "both.ris"))
    (folder / "labels.txt").write_text("3 include\n4 exclude wrong animal\n10.5555/w.3 exclude\n", encoding="utf-8")
    assert "contradict each other" in fail(capsys, "label", "otters", "-f", str(folder / "labels.txt"))
    (folder / "labels.csv").write_text("id,decision,reason\n3,exclude,no data\n10.5555/w.3,exclude,no otters\n", encoding="utf-8")
    assert "exclude ('no data') and exclude ('no otters')" in fail(capsys, "label", "otters", "-f", str(folder / "labels.csv"))
    (folder / "labels.csv").write_text("id,decision,reason\n3,include,\n99,exclude,\n", encoding="utf-8")
    assert "no record '99'" in fail(capsys, "label", "otters", "-f", str(folder / "labels.csv"))
    (folder / "labels.csv").write_text("id,decision\n3,\n", encoding="utf-8")
    assert "its column decision has none" in fail(capsys, "label", "otters", "-f", str(folder / "labels.csv"))
    (folder / "lines.txt").write_text("# a remark\n\n3 include\n4\n", encoding="utf-8")
    assert "line 4: a line is ID DECISION REASON" in fail(capsys, "label", "otters", "-f", str(folder / "lines.txt"))
    assert "at most 5,000 characters" in fail(capsys, "label", "otters", "3", "include", "--note", "x" * 5_001)
    assert "go with the decision" in fail(capsys, "label", "otters", "-f", str(folder / "labels.txt"), "--note", "ask Bob")
    assert "go with the decision" in fail(capsys, "label", "otters", "1", "undo", "--note", "ask Bob")
    assert run(["review", "export", "otters", "-o", str(folder / "x.asreview")]) == 0
    (folder / "x.asreview").write_bytes((folder / "x.asreview").read_bytes()[:-100])
    assert "no whole project" in fail(capsys, "import", "otters", str(folder / "x.asreview"))
    assert log.read_bytes() == before
    (folder / "labels.txt").write_text("3 include\n3 include\n# a remark\n4 exclude wrong animal\n", encoding="utf-8")
    assert call(capsys, "label", "otters", "-f", str(folder / "labels.txt"))["states"] == {"3": "include", "4": "exclude"}
    log.write_bytes(log.read_bytes()[:50])
    cut = log.read_bytes()
    assert "cut off in its first line" in fail(capsys, "label", "otters", "3", "include")
    assert log.read_bytes() == cut
    assert "takes a terminal" in fail(capsys, "screen", "otters")


def test_labels_of_rayyan_and_of_a_named_column_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = 'RAYYAN-INCLUSION: {"ann"=>"Excluded"} | RAYYAN-EXCLUSION-REASONS: wrong animal'
    (folder / "rayyan.ris").write_text(f"TY  - JOUR\nTI  - A study of voles\nN1  - {note}\nER  - \n", encoding="utf-8")
    (folder / "named.csv").write_text("title,my label\nOtters in rivers,Maybe\nBadgers,\n", encoding="utf-8")
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "rayyan.ris"))
    call(capsys, "import", "otters", str(folder / "named.csv"), "--label-column", "My Label")
    status = call(capsys, "status", "otters")
    assert (status["excluded_by_reason"], status["maybe"]) == ({"wrong animal": 1}, 1)


def test_usual_words_are_labels_and_others_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("Y", "relevant", "n", "Not  relevant", "irrelevant", "maybe", "-1", "nan", "x", "2")
    animals = "otters voles newts frogs toads stoats hares moles shrews bats".split()
    rows = "".join(f"A study of {animal},{word}\n" for animal, word in zip(animals, words, strict=True))
    (folder / "words.csv").write_text(f"title,included\n{rows}", encoding="utf-8")
    call(capsys, "new", "otters")
    report = call(capsys, "import", "otters", str(folder / "words.csv"))
    assert report["labels"] == 6
    assert report["remarks"] == ["2 records have no label but 'x', '2' in its column; write include, exclude or maybe"]
    status = call(capsys, "status", "otters")
    assert (status["included"], status["excluded"], status["maybe"]) == (2, 3, 1)


def test_people_of_rayyan_decide_for_themselves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a review of several reviewers they do, and may differ; one of a single reviewer takes no labels that contradict each other."""
    both, one = '{"Ann"=>"Included", "Bob"=>"Excluded"} | RAYYAN-EXCLUSION-REASONS: wrong animal', '{"Ann"=>"Excluded"}'
    notes = {"Otters in rivers": both, "Voles in meadows": one, "Newts in ponds": '{"Ann"=>"Maybe", "Bob"=>"Maybe"}'}
    record = "TY  - JOUR\nTI  - {}\nDO  - 10.5555/{}\nN1  - RAYYAN-INCLUSION: {}\nER  - \n"
    text = "".join(record.format(title, title[:3], note) for title, note in notes.items())
    (folder / "rayyan.ris").write_text(text, encoding="utf-8")
    call(capsys, "new", "single")
    refusal = fail(capsys, "import", "single", str(folder / "rayyan.ris"))
    assert "'Otters in rivers' is labelled include and exclude" in refusal
    assert "--no-labels" in refusal
    assert "--reviewers 2" in refusal
    call(capsys, "new", "otters", "--reviewers", "2")
    assert call(capsys, "import", "otters", str(folder / "rayyan.ris"))["labels"] == 5
    status = call(capsys, "status", "otters")
    assert (status["waiting"], status["maybe"], status["conflicts"]) == (1, 1, [1])
    assert call(capsys, "label", "otters", "2", "exclude", "--by", "Bob")["states"] == {"2": "exclude"}
    assert call(capsys, "import", "otters", str(folder / "rayyan.ris"))["labels"] == 0
    call(capsys, "label", "otters", "1", "include", "--resolve")
    assert run(["review", "export", "otters", "-o", str(folder / "out.ris"), "--only", "include"]) == 0
    call(capsys, "new", "copied")
    assert call(capsys, "import", "copied", str(folder / "out.ris"))["labels"] == 1
    (folder / "other.ris").write_text(text.replace('"Excluded"}\n', '"Included"}\n'), encoding="utf-8")
    assert "labelled include, and the review has exclude" in fail(capsys, "import", "otters", str(folder / "other.ris"))


class Terminal:
    """`outrider review screen` on a pseudo-terminal."""

    def __init__(self, columns: int) -> None:
        self._main, side = pty.openpty()
        ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environ = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}}
        command = [sys.executable, "-m", "outrider", "review", "screen", "otters"]
        environ |= {"TERM": "xterm-256color"}
        self.process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environ, start_new_session=True)
        os.close(side)
        self.shown = ""

    def expect(self, text: str) -> str:
        """What is shown up to a text, and all else that has come with it."""
        part = ""
        while text not in STYLE.sub("", part):
            if not select.select([self._main], [], [], 60)[0]:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"no {text!r} in {part!r}")
            try:
                part += os.read(self._main, 65_536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"no {text!r} in {part!r}") from None
        self.shown += part
        return part

    def press(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def close(self) -> int:
        code = self.process.wait(60)
        os.close(self._main)
        return code


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_records_are_decided_by_single_keys(folder: Path, capsys: pytest.CaptureFixture[str], columns: int) -> None:
    call(capsys, "new", "otters", "-q", "what do otters eat", "--reason", "wrong animal")
    call(capsys, "import", "otters", str(folder / "papers.csv"), "--no-labels")
    terminal = Terminal(columns)
    first = terminal.expect("? help")
    assert "Otters in rivers" in STYLE.sub("", first)
    assert "\x1b[1;35mOtters" in first
    terminal.press("?")
    terminal.expect("skip: it comes back later")
    terminal.press("i")
    terminal.expect("included 1")
    terminal.press("e")
    terminal.expect("1  wrong animal")
    terminal.press("1")
    terminal.expect("excluded ")
    terminal.press("u")
    terminal.expect("taken back")
    terminal.press("n")
    terminal.expect("Note")
    terminal.press("ask Bob\r")
    again = STYLE.sub("", terminal.expect("Note of ann: ask Bob"))
    assert ", question #" in again  # the order in which the record came, not "chosen"
    terminal.press("m")
    terminal.expect("maybe ")
    terminal.press("er")
    terminal.expect("Reason")
    terminal.press("too\x1b")  # goes back, and excludes nothing
    terminal.expect("? help")
    terminal.press("er")
    terminal.expect("Reason")
    terminal.press("too old\r")
    terminal.expect("excluded ")
    terminal.process.send_signal(signal.SIGINT)
    terminal.expect("All decisions are saved")
    assert terminal.close() == 130
    lines = [line for line in STYLE.sub("", terminal.shown).replace("\r", "").split("\n") if "Reading the records" not in line]
    assert max(map(cell_len, lines)) <= columns
    status = call(capsys, "status", "otters")
    assert (status["included"], status["excluded"], status["maybe"], status["unscreened"]) == (1, 1, 1, 1)
    assert status["excluded_by_reason"] == {"too old": 1}


def test_reasons_are_those_of_the_verdict_that_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters", "--reviewers", "2")
    call(capsys, "import", "otters", str(folder / "papers.csv"), "--no-labels")
    for record, ann, bob, verdict in (
        ("1", "include", "exclude", "include"),
        ("2", "maybe", "exclude", "exclude"),
        ("3", "include", "", ""),
    ):
        call(capsys, "label", "otters", record, ann, "-r", "few rivers", "--by", "ann")
        if bob:
            call(capsys, "label", "otters", record, bob, "-r", "no data", "--by", "bob")
            call(capsys, "label", "otters", record, verdict, "--resolve", "--by", "cay")
    call(capsys, "label", "otters", "4", "include", "--by", "ann")
    call(capsys, "label", "otters", "4", "exclude", "-r", "no otters", "--by", "bob")
    status = call(capsys, "status", "otters")
    assert (status["excluded_by_reason"], status["conflicts"]) == ({"no data": 1}, [4])
    assert status["agreement"] == [{"reviewers": ["ann", "bob"], "records": 3, "agreed": 0, "kappa": 0.0}]
    assert run(["review", "status", "otters"]) == 0
    assert "ann and bob: alike on 0 of 3 records, Cohen's kappa 0.00" in capsys.readouterr().out
    assert call(capsys, "list")["reviews"][0]["screened"] == 3  # as in the flow of PRISMA, where a conflict was screened
    for name in ("x.csv", "x.ris"):
        assert run(["review", "export", "otters", "-o", str(folder / name)]) == 0
    rows = csv.DictReader((folder / "x.csv").read_text(encoding="utf-8").splitlines())
    assert [(row["decision"], row["reason"]) for row in rows] == [
        ("include", "few rivers"), ("exclude", "no data"), ("waiting", ""), ("conflict", "no otters"),
    ]  # fmt: skip
    assert re.findall("N1  - (.*)", (folder / "x.ris").read_text(encoding="utf-8")) == [
        "ASReview_relevant", "ASReview_irrelevant", "Excluded: no data", "ASReview_not_seen", "ASReview_not_seen",
    ]  # fmt: skip


def test_an_exported_table_comes_back_with_its_reasons(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "papers.csv"))
    call(capsys, "label", "otters", "4", "exclude", "-r", "wrong animal")
    for note in ("ask Bob", "Excluded: this is my own"):
        call(capsys, "label", "otters", "4", "--note", note)
    for name in ("x.csv", "x.jsonl", "x.bib", "x.ris"):
        assert run(["review", "export", "otters", "-o", str(folder / name)]) == 0
        call(capsys, "new", name)
        call(capsys, "import", name, str(folder / name))
        assert call(capsys, "status", name)["excluded_by_reason"] == {"no reason given": 1, "wrong animal": 1}, name
    # what was decided later replaces the notes, and no others
    call(capsys, "label", "x.ris", "4", "maybe", "--by", "bob")
    call(capsys, "label", "x.ris", "4", "include", "--resolve")
    assert run(["review", "export", "x.ris", "--only", "include", "-o", str(folder / "y.ris")]) == 0
    assert "Excluded: this is my own" in (folder / "y.ris").read_text(encoding="utf-8")
    assert "wrong animal" not in (folder / "y.ris").read_text(encoding="utf-8")
    # the table is also a list of decisions, without those that were not made
    call(capsys, "new", "second")
    call(capsys, "import", "second", str(folder / "papers.csv"), "--no-labels")
    report = call(capsys, "label", "second", "-f", str(folder / "x.csv"), "--by", "bob")
    assert report["states"] == {"1": "include", "2": "exclude", "4": "exclude"}


def test_a_table_of_decisions_names_records_of_the_review(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "papers.csv"), "--no-labels")
    (folder / "d.csv").write_text("record_id,included\n1,1\n2,0\n", encoding="utf-8")  # ASReview counts its records from 0
    assert "has no column id" in fail(capsys, "label", "otters", "-f", str(folder / "d.csv"))
    (folder / "d.csv").write_text("id,decision\n1,include\n2,exlude\n", encoding="utf-8")
    assert "record 2: a decision is include, exclude or maybe, not 'exlude'; did you mean 'exclude'?" in fail(
        capsys, "label", "otters", "-f", str(folder / "d.csv")
    )
    assert call(capsys, "status", "otters")["unscreened"] == 4


def test_a_label_that_a_record_came_with_is_not_exported_beside_the_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "maybe.csv").write_text(TABLE.replace("w.3,", "w.3,maybe").replace("w.4,", "w.4,-1"), encoding="utf-8")
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "maybe.csv"))
    call(capsys, "label", "otters", "3", "include")  # a conflict with the file, which says maybe
    call(capsys, "label", "otters", "4", "maybe")
    for name in ("x.jsonl", "x.bib"):
        assert run(["review", "export", "otters", "-o", str(folder / name)]) == 0
        call(capsys, "new", name)
        call(capsys, "import", name, str(folder / name))
        status = call(capsys, "status", name)
        assert (status["included"], status["excluded"], status["maybe"], status["unscreened"]) == (1, 1, 0, 2), name


def test_a_reason_of_several_lines_stays_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters")
    call(capsys, "import", "otters", str(folder / "papers.csv"), "--no-labels")
    rows = (
        "\ufeff# a remark",
        "",
        "id;decision;reason",
        '1;exclude;"no rivers;',
        "# 2 of 3",
        "",
        'asked Bob"',
        "# 2;exclude;",
        "3;include;",
    )
    (folder / "d.csv").write_text("\r\n".join(rows), encoding="utf-8", newline="")
    assert call(capsys, "label", "otters", "-f", str(folder / "d.csv"))["states"] == {"1": "exclude", "3": "include"}
    assert call(capsys, "status", "otters")["excluded_by_reason"] == {"no rivers; # 2 of 3 asked Bob": 1}
    (folder / "d.csv").write_text('id,decision,reason\n2,exclude,"no end\n4,include,\n', encoding="utf-8")
    assert "d.csv, line 3: is no row of a table (unexpected end of data)" in fail(capsys, "label", "otters", "-f", str(folder / "d.csv"))


def test_what_was_imported_before_an_error_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "new", "otters")
    table = str(folder / "papers.csv")
    error = fail(capsys, "import", "otters", table, str(folder / "nothing.ris"), table)
    assert f"Imported already: {table}; do not import them again" in error
    assert call(capsys, "status", "otters")["records"] == 4
    assert "Imported already" not in fail(capsys, "import", "otters", str(folder / "nothing.ris"), table)


def test_a_seed_that_no_order_takes_begins_no_review(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("-1", "4294967296"):
        assert f"seed takes 0 to 2,147,483,648, not {seed}" in fail(capsys, "new", "otters", "--seed", seed)
    assert call(capsys, "list")["reviews"] == []
