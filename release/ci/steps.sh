#!/bin/sh
# The steps of docs/ci.md without GitHub. Run it in the library's folder. openhpu's wheel lies beside this file.
#   steps.sh install      makes ~/venv, with PyTorch, openhpu and the library
#   steps.sh test         runs the library's tests and writes hpu.html
set -eu
case "${1:-}" in
install)
  mkdir -p ~/.cache/openhpu/wheels && cp "$(dirname "$0")"/openhpu-*.whl ~/.cache/openhpu/wheels
  python3 -m venv ~/venv && ~/venv/bin/pip install --find-links ~/.cache/openhpu/wheels torch==2.13.0 openhpu pytest -e .
  ;;
test)
  ~/venv/bin/python -m pytest --hpu-report=hpu.html tests
  ;;
*)
  echo "steps.sh: expected install or test, got '${1:-}'" >&2
  exit 2
  ;;
esac
