"""The import rules between the parts of cctv, read from the syntax tree."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("data", "world", "metrics", "models", "decoding", "reports", "training", "runs")
COMMANDS = {p.stem for p in (ROOT / "cctv").glob("*.py")} - {"__init__", "cli"}

# What each folder may import of cctv (itself always), parts or single modules, and which
# third-party packages.
ALLOWED = {
    "data": (set(), {"numpy", "av", "decord", "PIL", "pebble", "absl", "tqdm"}),
    "world": ({"data"}, {"numpy", "cv2", "PIL", "av", "tqdm", "absl"}),
    "metrics": (set(), {"numpy", "jax", "scipy"}),
    "models": (
        {"data"},
        {
            "numpy",
            "jax",
            "flax",
            "ml_dtypes",
            "safetensors",
            "tokenizers",
            "transformers",
            "huggingface_hub",
            "absl",
        },
    ),
    "decoding": ({"models.base", "models.decoder"}, {"numpy", "jax", "flax"}),
    "reports": ({"metrics", "data.files"}, {"numpy", "matplotlib", "jinja2"}),
    "training": ({"models", "world", "data", "metrics", "decoding"}, None),
    "runs": (set(FOLDERS) - {"training"}, None),
}

COMMAND_PACKAGES = {"absl", "ml_collections"}  # commands are flags and one call


def imports_of(path: Path) -> set[str]:
    """Dotted names of every module that a file imports, at any depth of nesting."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def is_in(name: str, allowed: set[str]) -> bool:
    """Whether a dotted name is one of some modules, or inside one."""
    parts = name.split(".")
    return any(".".join(parts[:n]) in allowed for n in range(1, len(parts) + 1))


def test_is_in():
    assert is_in("models.base.Prompt", {"models.base"})
    assert is_in("models.base", {"models"})
    assert not is_in("models.layers", {"models.base", "models.decoder"})
    assert not is_in("models.base_of", {"models.base"})


def files():
    return sorted((ROOT / "cctv").rglob("*.py"))


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_design(path):
    parts = path.relative_to(ROOT / "cctv").parts
    folder = parts[0] if len(parts) > 1 else None
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        part = rest.split(".")[0]
        if top == "cctv":
            assert part not in COMMANDS, f"nobody imports a command: {name}"
            if part == "cli":
                continue
            if folder is None:
                continue
            may, _ = ALLOWED[folder]
            inside = not part or part == folder or is_in(name.removeprefix("cctv."), may)
            assert inside, f"{folder} may not import {name}"
        elif top not in sys.stdlib_module_names:
            _, packages = ALLOWED[folder] if folder else (None, COMMAND_PACKAGES)
            assert packages is None or top in packages, f"{folder} may not import {name}"


def test_contrast_is_pure_jax():
    path = ROOT / "cctv/decoding/contrast.py"
    tops = {n.split(".")[0] for n in imports_of(path)}
    assert tops <= {"jax", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.py")), ids=lambda p: p.stem)
def test_configs_import_ml_collections_and_each_other_only(path):
    assert {n.split(".")[0] for n in imports_of(path)} <= {"ml_collections", "configs"}


def test_only_commands_import_runs():
    for path in files():
        parts = path.relative_to(ROOT / "cctv").parts
        if len(parts) == 1 or parts[0] == "runs":
            continue
        assert not any(n.startswith("cctv.runs") for n in imports_of(path)), path


def test_commands_are_short():
    for name in COMMANDS:
        lines = (ROOT / "cctv" / f"{name}.py").read_text().splitlines()
        assert len(lines) <= 80, f"cctv/{name}.py: a command is flags and one call"


def test_torch_and_hf_models_only_in_tests():
    for path in files():
        for name in imports_of(path):
            assert not name.startswith(("torch", "transformers.models")), f"{path}: {name}"
