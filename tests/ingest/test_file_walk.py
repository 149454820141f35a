from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.ingest.file_walk import walk
from outrider.state.errors import BadRequest


def names(root: Path, *paths: Path) -> list[str]:
    return [str(entry.path.relative_to(root.resolve())) for entry in walk(paths or [root])]


def fill(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_files_come_depth_first_by_name(tmp_path: Path) -> None:
    """The order is that of names, whatever the file system's."""
    fill(tmp_path, "b.md", "a/z.md", "a/c/d.md", "c.md", "a.md")
    assert names(tmp_path) == ["a/c/d.md", "a/z.md", "a.md", "b.md", "c.md"]


def test_hidden_entries_are_left_out_unless_named(tmp_path: Path) -> None:
    """A leading dot hides files and folders inside a folder, not a path that was given. Word's locks are no documents."""
    fill(tmp_path, ".git/config", ".hidden.md", "seen.md", "~$report.docx")
    assert names(tmp_path) == ["seen.md"]
    assert names(tmp_path, tmp_path / ".hidden.md", tmp_path / ".git") == [".hidden.md", ".git/config"]


def test_a_link_back_up_ends(tmp_path: Path) -> None:
    """A symlink loop is walked once, however many links lead into it."""
    fill(tmp_path, "deep/down/a.md")
    (tmp_path / "deep" / "down" / "up").symlink_to(tmp_path)
    (tmp_path / "deep" / "self").symlink_to(tmp_path / "deep")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    entries = walk([tmp_path])
    assert [file.path.name for file in entries] == ["a.md", "round"]
    assert entries[1].problem


def test_a_link_does_not_lead_out_of_the_folder_that_was_named(tmp_path: Path) -> None:
    fill(tmp_path, "named/a.md", "private/b.md")
    (tmp_path / "named" / "link").symlink_to(tmp_path / "private")
    entries = walk([tmp_path / "named"])
    assert [(file.path.name, bool(file.skip_reason)) for file in entries] == [("a.md", False), ("link", True)]
    assert [file.path.name for file in walk([tmp_path / "named" / "link"])] == ["b.md"]


def test_a_link_to_a_file_outside_is_skipped_unless_named(tmp_path: Path) -> None:
    fill(tmp_path, "named/a.md", "private/b.md")
    (tmp_path / "named" / "link.md").symlink_to(tmp_path / "private" / "b.md")
    (tmp_path / "named" / "own.md").symlink_to("a.md")
    entries = walk([tmp_path / "named"])
    assert [(file.path.name, "outside" in file.skip_reason) for file in entries] == [("a.md", False), ("link.md", True)]
    assert [file.path.name for file in walk([tmp_path / "named" / "link.md"])] == ["b.md"]


def test_a_name_that_is_no_text_is_a_problem_of_its_own(tmp_path: Path) -> None:
    """Also that of a folder: nothing could store it, or show it."""
    folder, file = (Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/\xff", b"/\xfe.md"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    (folder / "a.md").write_text("x")
    file.write_text("x")
    (tmp_path / "to.md").symlink_to(Path(os.fsdecode(b"gone\xfd.md")))
    entries = walk([tmp_path])
    assert [str(file.path.relative_to(tmp_path)) for file in entries] == ["to.md", "\\udcfe.md", "\\udcff/a.md"]
    assert all(file.problem and file.problem.isascii() for file in entries)


def test_a_file_is_found_once(tmp_path: Path) -> None:
    """Given twice, through its folder or through a link, a file is one file by its real path."""
    fill(tmp_path, "a.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    assert names(tmp_path, tmp_path / "a.md", tmp_path, tmp_path / "link.md") == ["a.md"]


@pytest.mark.parametrize("name", ["absent", "a.md/absent", "nul\0l", "x" * 300])
def test_a_path_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    """Nothing is read when one of the paths does not exist."""
    fill(tmp_path, "a.md")
    with pytest.raises(BadRequest) as raised:
        walk([tmp_path, tmp_path / name])
    assert name.replace("\0", "\\x00") in str(raised.value)


def test_what_is_no_file_is_skipped_with_a_reason(tmp_path: Path) -> None:
    """A pipe would block for ever if it were opened; a link to nothing is a problem."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    dangling, pipe = walk([tmp_path])
    assert "gone" in dangling.problem
    assert pipe.skip_reason == "a named pipe, not a file"


def test_a_folder_that_cannot_be_opened_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed as a problem, and its neighbours are still found."""
    fill(tmp_path, "closed/a.md", "open/b.md")
    listed = Path.iterdir

    def iterdir(path: Path) -> object:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    closed, read = walk([tmp_path])
    assert (closed.path.name, closed.problem) == ("closed", "Permission denied")
    assert read.path.name == "b.md"


def test_a_very_deep_folder_is_walked(tmp_path: Path) -> None:
    """Depth is no recursion."""
    here = tmp_path
    for _ in range(600):
        here /= "d"
    here.mkdir(parents=True)
    (here / "a.md").write_text("deep")
    assert [entry.path.name for entry in walk([tmp_path])] == ["a.md"]
