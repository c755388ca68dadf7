"""Records that claim to be of the present code are: lines with the key `trees` name a commit whose src, include, python
and cmake are those of the newest commit. Records without that key, which are older, claim nothing."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("src", "include", "python", "cmake")  # in the order of src/bench/commit.cmake
DIGITS = 10


def git(repository, *words):
    """What git prints; nothing where it fails."""
    done = subprocess.run(["git", *words], cwd=repository, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def trees_of(repository, commit):
    """The folders' trees, as records have them; nothing where the commit is not there."""
    trees = [git(repository, "rev-parse", "--verify", f"{commit}:{folder}")[:DIGITS] for folder in FOLDERS]
    return " ".join(trees) if all(trees) else ""


def claims(lines):
    """(commit, trees) of the lines that claim to be of the present code."""
    rows = [json.loads(line) for line in lines if line.strip()]
    return {(row.get("commit", ""), row["trees"]) for row in rows if "trees" in row}


def complaints(lines, repository):
    """What is wrong with a record; and what could not be looked at."""
    wrong, unseen = [], []
    now = trees_of(repository, "HEAD")
    for commit, trees in sorted(claims(lines)):
        if not now:
            unseen.append(f"{repository} has no commit to compare {commit} with")
            continue
        if trees != now:
            wrong.append(f"recorded at commit {commit} with trees {trees} of {', '.join(FOLDERS)}; those of HEAD are {now}")
        then = trees_of(repository, commit)
        if not then:
            unseen.append(f"commit {commit} is not in this clone: its history is shallow, or the commit was rebased")
        elif then != trees:
            wrong.append(f"commit {commit} has trees {then}, its lines say {trees}")
    return wrong, unseen


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks/results").glob("*.jsonl")), ids=lambda path: path.name)
def test_records_that_claim_to_be_current_are(path):
    wrong, unseen = complaints(path.read_text().splitlines(), ROOT)
    assert not wrong, f"{path.name} is of other code than HEAD's: record it anew. " + "; ".join(wrong)
    for reason in unseen:
        print(f"{path.name}: not compared: {reason}")


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.name", "x")
    git(tmp_path, "config", "user.email", "x@example.org")
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("1")
    commit(tmp_path)
    return tmp_path


def commit(repository):
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "x")
    return git(repository, "rev-parse", "HEAD")[:DIGITS]


def line(repository, name):
    return json.dumps({"peer": "Tilewright", "commit": name, "trees": trees_of(repository, "HEAD")})


def test_other_files_may_change_but_these_folders_may_not(repository):
    recorded = [line(repository, git(repository, "rev-parse", "HEAD")[:DIGITS])]
    (repository / "README.md").write_text("documents are no code")
    commit(repository)
    assert complaints(recorded, repository) == ([], [])
    (repository / "cmake/file").write_text("2")
    commit(repository)
    wrong, unseen = complaints(recorded, repository)
    assert len(wrong) == 1 and "those of HEAD are" in wrong[0] and not unseen


def test_a_commit_that_is_not_there_is_said(repository, tmp_path_factory):
    recorded = [line(repository, "0123456789")]
    wrong, unseen = complaints(recorded, repository)
    assert not wrong and "0123456789 is not in this clone" in unseen[0]
    nowhere = tmp_path_factory.mktemp("nowhere")
    git(nowhere, "init", "-q")
    wrong, unseen = complaints(recorded, nowhere)
    assert not wrong and "no commit to compare" in unseen[0]


def test_a_commit_of_other_trees_is_wrong(repository):
    earlier = git(repository, "rev-parse", "HEAD")[:DIGITS]
    (repository / "src/file").write_text("2")
    commit(repository)
    wrong, _ = complaints([line(repository, earlier)], repository)
    assert len(wrong) == 1 and f"commit {earlier} has trees" in wrong[0]


def test_older_records_claim_nothing():
    assert claims(['{"peer": "x", "commit": "e505547194"}', ""]) == set()
