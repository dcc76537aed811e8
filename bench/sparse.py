"""Sparse regression problems for comparisons: made here, written in every form that somebody reads, and checked.

    python bench/sparse.py ROWS COLUMNS PER_ROW PREFIX

writes PREFIX.npz (SciPy), PREFIX.b.npy (targets) and PREFIX.bin, which is what `bench/cocoa_peer.cpp` reads.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np


@dataclass
class Problem:
    """Where a matrix and its targets lie, and what is to be minimised: 1/2 |Aa - b|^2 + lam (eta/2 |a|^2 + (1-eta) |a|_1)."""

    name: str
    prefix: Path
    lam: float
    eta: float
    # What to come below, once the optimum is known.
    target: float = 0.0

    @property
    def npz(self) -> Path:
        return self.prefix.with_name(self.prefix.name + ".npz")

    @property
    def labels(self) -> Path:
        return self.prefix.with_name(self.prefix.name + ".b.npy")

    @property
    def raw(self) -> Path:
        return self.prefix.with_name(self.prefix.name + ".bin")

    def load(self) -> tuple[Any, np.ndarray]:
        from scipy import sparse

        return sparse.load_npz(self.npz).tocsr(), np.load(self.labels)

    def check(self, coefficients: np.ndarray) -> tuple[float, float]:
        """Objective, and how far above the optimum that is at most: Fenchel's dual at the residual."""
        a_matrix, b = self.load()
        l1, l2 = self.lam * (1 - self.eta), self.lam * self.eta
        residual = a_matrix @ coefficients - b
        along = np.abs(a_matrix.T @ residual)
        squares, with_b = residual @ residual, residual @ b
        objective = 0.5 * squares + 0.5 * l2 * coefficients @ coefficients + l1 * np.abs(coefficients).sum()
        if l2 > 0:
            bound = -0.5 * squares - with_b - (np.maximum(along - l1, 0.0) ** 2).sum() / (2 * l2)
        else:
            most = l1 / max(along.max(), 1e-300)
            scale = np.clip(-with_b / max(squares, 1e-300), -most, most)
            bound = -0.5 * scale**2 * squares - scale * with_b
        return float(objective), float(objective - bound)


def power_law(rows: int, columns: int, per_row: int, random: np.random.Generator, power: float = 0.8) -> Any:
    """Rows of length 1 in which few columns have most of the entries, as words have in texts."""
    from scipy import sparse

    weights = np.arange(1, columns + 1, dtype=np.float64) ** -power
    until = np.cumsum(weights / weights.sum())
    drawn = np.minimum(np.searchsorted(until, random.random(rows * per_row)), columns - 1)
    # Long columns are not neighbours.
    places = random.permutation(columns)[drawn]
    values = random.lognormal(sigma=0.5, size=rows * per_row)
    a_matrix = sparse.coo_matrix(
        (values, (np.repeat(np.arange(rows), per_row), places)), shape=(rows, columns)
    ).tocsr()
    a_matrix.sum_duplicates()
    return scaled(a_matrix)


def scaled(a_matrix: Any) -> Any:
    """Rows of length 1."""
    from scipy import sparse

    lengths = np.sqrt(np.asarray(a_matrix.multiply(a_matrix).sum(axis=1)).ravel())
    return sparse.diags(1.0 / np.maximum(lengths, 1e-300)) @ a_matrix


def targets(
    a_matrix: Any, random: np.random.Generator, share: float = 0.05, noise: float = 0.1
) -> np.ndarray:
    """What a few of the columns say, and some noise."""
    rows, columns = a_matrix.shape
    truth = random.standard_normal(columns) * (random.random(columns) < share)
    return np.asarray(a_matrix @ truth).ravel() + noise * random.standard_normal(rows)


def write(prefix: Path, a_matrix: Any, b: np.ndarray) -> None:
    from scipy import sparse

    by_columns = sparse.csc_matrix(a_matrix)
    by_columns.sort_indices()
    prefix.parent.mkdir(parents=True, exist_ok=True)
    sparse.save_npz(f"{prefix}.npz", by_columns, compressed=False)
    np.save(f"{prefix}.b.npy", b)
    with open(f"{prefix}.bin", "wb") as file:
        np.array([*by_columns.shape, by_columns.nnz], np.int64).tofile(file)
        by_columns.indptr.astype(np.int64).tofile(file)
        by_columns.indices.astype(np.int32).tofile(file)
        by_columns.data.astype(np.float64).tofile(file)
        b.astype(np.float64).tofile(file)


def problem(
    folder: Path, rows: int, columns: int, per_row: int, lam: float, eta: float, name: str = ""
) -> Problem:
    """The usual one; it is made if it is not there."""
    prefix = folder / f"power-{rows}-{columns}-{per_row}"
    if not Path(f"{prefix}.bin").exists():
        random = np.random.default_rng(11)
        a_matrix = power_law(rows, columns, per_row, random)
        write(prefix, a_matrix, targets(a_matrix, random))
    return Problem(name or prefix.name, prefix, lam, eta)


# Ten of other shapes. Each is a matrix, and what is asked of it.


def tall(random: np.random.Generator) -> Any:
    return power_law(60_000, 800, 20, random, 0.4)


def wide(random: np.random.Generator) -> Any:
    return power_law(3_000, 150_000, 250, random)


def square(random: np.random.Generator) -> Any:
    return power_law(20_000, 20_000, 50, random, 0.5)


def even(random: np.random.Generator) -> Any:
    """All columns have about as many entries."""
    return power_law(20_000, 40_000, 40, random, 0.0)


def steep(random: np.random.Generator) -> Any:
    """A few columns are nearly full."""
    return power_law(20_000, 40_000, 40, random, 1.2)


def dense(random: np.random.Generator) -> Any:
    from scipy import sparse

    return sparse.csr_matrix(random.standard_normal((4_000, 600)) / np.sqrt(600))


def correlated(random: np.random.Generator) -> Any:
    """Columns that are mixtures of a few, and some noise."""
    from scipy import sparse

    factors = random.standard_normal((3_000, 12)) @ random.standard_normal((12, 500))
    return scaled(sparse.csr_matrix(factors + 1.0 * random.standard_normal((3_000, 500))))


def duplicated(random: np.random.Generator) -> Any:
    """Every column is there twice, so partitions undo what the others do."""
    from scipy import sparse

    half = power_law(20_000, 10_000, 30, random, 0.5)
    return scaled(sparse.hstack([half, half]).tocsr())


def uneven(random: np.random.Generator) -> Any:
    """Columns of lengths from 1/100 to 100, as columns in different units have."""
    from scipy import sparse

    a_matrix = power_law(20_000, 10_000, 30, random, 0.5)
    return a_matrix @ sparse.diags(10.0 ** random.uniform(-2, 2, a_matrix.shape[1]))


def hollow(random: np.random.Generator) -> Any:
    """Nine of ten columns are empty."""
    from scipy import sparse

    inner = power_law(20_000, 10_000, 40, random)
    return sparse.hstack([inner, sparse.csr_matrix((20_000, 90_000))]).tocsr()


SHAPES: list[tuple[Callable[[np.random.Generator], Any], float, float]] = [
    (tall, 1.0, 1.0),
    (wide, 1.0, 1.0),
    (square, 0.1, 1.0),
    (even, 0.05, 0.0),
    (steep, 0.05, 0.0),
    (dense, 1.0, 1.0),
    (correlated, 0.1, 1.0),
    (duplicated, 1.0, 1.0),
    (uneven, 1.0, 0.5),
    (hollow, 0.05, 0.5),
]


def shape(folder: Path, make: Callable[[np.random.Generator], Any], lam: float, eta: float) -> Problem:
    kind = {1.0: "ridge", 0.0: "lasso"}.get(eta, "elastic net")
    prefix = folder / f"shape-{make.__name__}"
    if not Path(f"{prefix}.bin").exists():
        random = np.random.default_rng(23)
        a_matrix = make(random)
        write(prefix, a_matrix, targets(a_matrix, random))
    return Problem(f"{make.__name__}, {kind}", prefix, lam, eta)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: sparse.py ROWS COLUMNS PER_ROW PREFIX")
    m, n, k = map(int, sys.argv[1:4])
    generator = np.random.default_rng(11)
    made = power_law(m, n, k, generator)
    write(Path(sys.argv[4]), made, targets(made, generator))
