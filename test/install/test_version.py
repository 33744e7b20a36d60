"""scripts/version: the forms that it prints, in repositories made for it."""

import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import ROOT


class Tree:
    def __init__(self, path):
        self.path = path
        (path / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/version", path / "scripts")
        (path / "VERSION").write_text("1.2.0\n")

    def git(self, *words):
        who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(["git", *words], cwd=self.path, env={**os.environ, **who, "GIT_COMMITTER_DATE": "@1700000000 +0000"},
                              check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self, message="more"):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "--short=7", "HEAD")

    def version(self, *options, **env):
        clean = {name: value for name, value in os.environ.items() if name not in ("BUILD_VERSION", "SOURCE_DATE_EPOCH")}
        return subprocess.run([self.path / "scripts/version", *options], cwd="/", env={**clean, **env}, check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree")


@pytest.fixture
def repository(tree):
    tree.git("init", "-q")
    tree.commit("first")
    return tree


def test_without_git_it_is_that_of_the_file(tree):
    assert tree.version() == "1.2.0"
    os.utime(tree.path / "VERSION", (1234567890, 1234567890))
    assert tree.version("--epoch") == "1234567890"


def test_a_repository_around_the_tree_does_not_count(tree):
    subprocess.run(["git", "init", "-q"], cwd=tree.path.parent, check=True)
    assert tree.version() == "1.2.0"


def test_without_a_tag_it_is_never_a_release(repository):
    assert repository.version() == f"1.2.0+0.g{repository.git('rev-parse', '--short=7', 'HEAD')}"
    assert repository.version("--tag").startswith("1.2.0-0.g")
    assert repository.version("--epoch") == "1700000000"


def test_a_tag_makes_a_release_and_later_commits_count_from_it(repository):
    repository.git("tag", "v1.3.0")
    assert repository.version() == repository.version("--tag") == "1.3.0"
    (repository.path / "VERSION").write_text("9.9.9\n")
    assert repository.version().startswith("1.3.0+0.g") and repository.version().endswith(".dirty")
    repository.commit()
    newest = repository.commit()
    assert repository.version() == f"1.3.0+2.g{newest}"


def test_debian_sorts_versions_by_age(repository):
    versions = []
    for i in range(12):
        if i == 1:
            repository.git("tag", "v1.3.0")
        versions.append(repository.version())
        repository.commit()
    repository.git("tag", "v1.10.0")
    versions.append(repository.version())
    for older, newer in zip(versions, versions[1:]):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)


def test_the_environment_goes_first(repository):
    assert repository.version(BUILD_VERSION="7.0.0") == "7.0.0"
    assert repository.version("--epoch", SOURCE_DATE_EPOCH="77") == "77"


def test_the_binary_has_the_version_of_the_tree(tmp_path):
    binary = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "smart-router"
    header = binary.parent / "src/base/version.h"
    printed = subprocess.run([binary, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert f'"{printed.split()[1]}"' in header.read_text()
