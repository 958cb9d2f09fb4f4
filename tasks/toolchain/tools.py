"""The tools and recipes of the catalogue, as data (seed 001 "Tool Contract Registry"; spec 5).

Where two contracts read the same words, the narrower one stands first. A recipe's parts run in order, the first
failure ends; all must pass.
"""

from __future__ import annotations

from tasks.toolchain.contract import Part
from tasks.toolchain.tools_compiled import COMPILED_TOOLS
from tasks.toolchain.tools_node import NODE_TOOLS, SCRIPT_TOOLS
from tasks.toolchain.tools_python import PYTHON_TOOLS

TOOLS = (*PYTHON_TOOLS, *NODE_TOOLS, *COMPILED_TOOLS, *SCRIPT_TOOLS)

_PY = (".py",)
_JS = (".js", ".mjs", ".cjs")
_NODE = (*_JS, ".jsx", ".ts", ".tsx", ".mts", ".cts")

_PY_COMPILE = Part("python -m py_compile", _PY)
_RUFF = Part("ruff check", _PY, "ruff check .")
_MYPY = Part("mypy", _PY, "mypy .")
_PYTEST = Part("pytest -q")
_ESLINT = Part("npx eslint", _NODE, "npx eslint .")
_TSC = Part("npx tsc --noEmit")
_NPM_TEST = Part("npm test")
_GO_TEST = Part("go test ./...")
_CARGO_TEST = Part("cargo test")
_CMAKE = Part("cmake --build build")
_CTEST = Part("ctest --test-dir build --output-on-failure")

SEED_RECIPES = {
    "python-quick": (_PY_COMPILE, _RUFF),
    "python-full": (_PY_COMPILE, _RUFF, _MYPY, _PYTEST),
    "python-test-only": (_PYTEST,),
    "python-focused-test": (Part("pytest -x -v --tb=short", _PY, "pytest -x -v --tb=short", tests=True),),
    "node-quick": (_ESLINT,),
    "node-full": (_ESLINT, _TSC, _NPM_TEST),
    "go-full": (Part("go vet ./..."), _GO_TEST),
    "rust-full": (Part("cargo clippy -- -D warnings"), _CARGO_TEST),
}

RECIPES = SEED_RECIPES | {
    "python-syntax": (_PY_COMPILE,),
    "node-syntax": (Part("node --check", _JS, each=True),),
    "node-types": (_TSC,),
    "node-test-only": (_NPM_TEST,),
    "go-syntax": (Part("gofmt -l", (".go",)),),
    "go-build": (Part("go build ./..."),),
    "go-test-only": (_GO_TEST,),
    "rust-check": (Part("cargo check"),),
    "rust-test-only": (_CARGO_TEST,),
    "cpp-build": (_CMAKE,),
    "cpp-full": (_CMAKE, _CTEST),
}
