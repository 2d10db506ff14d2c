# Everything runs against the built and installed wheel: what is tested is what people get.

python := env("PYTHON", "python")

# Lint, format, types, tests and the README's program, as CI runs them.
check: lint wheel types test readme

lint:
    {{ python }} -m ruff check .
    {{ python }} -m ruff format --check .

# Build the wheel from a clean tree and install it over whatever is there.
wheel:
    rm -rf build dist
    {{ python }} -m build --wheel --outdir dist . > /dev/null
    {{ python }} -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/*.whl

types:
    {{ python }} -m mypy
    {{ python }} -m mypy --strict tests benchmarks

test *arguments:
    {{ python }} -m pytest {{ arguments }}

# The README's program prints what the README says.
readme:
    {{ python }} tests/readme.py

# Ratios to raw sqlite3 and, with --peers, the peers beside them; --quick takes a minute.
bench *arguments:
    {{ python }} -m benchmarks {{ arguments }}
