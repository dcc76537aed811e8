"""The data of the study: columns dealt to partitions once, written for every program, and the one place where an objective is computed.

Columns are dealt by their number of entries, the longest first, to and fro, so that partitions have equally many columns and
about equally many entries; then they are renumbered so that a partition's columns are neighbours. From there on every program has
the same partitions without knowing how they were made. A partition lies in PART-k.bin as `sparse.write` lays out a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import local_solver
import numpy as np
import sparse

# Within this share of the optimum is good enough.
CLOSE = 1e-3
# The optimum is known to this share.
CERTAIN = 1e-7


@dataclass
class Data:
    """A ridge problem in partitions: minimise 1/2 |A a - b|^2 + lam/2 |a|^2."""

    name: str
    folder: Path
    columns: Any
    b: np.ndarray
    lam: float
    partitions: int
    optimum: float = 0.0

    @property
    def rows(self) -> int:
        return int(self.columns.shape[0])

    @property
    def target(self) -> float:
        return self.optimum * (1 + CLOSE)

    @property
    def raw(self) -> Path:
        return self.folder / "all.bin"

    def part(self, partition: int) -> Path:
        return self.folder / f"part-{partition}.bin"

    def span(self, partition: int) -> tuple[int, int]:
        """The columns of a partition."""
        each, more = divmod(int(self.columns.shape[1]), self.partitions)
        start = partition * each + min(partition, more)
        return start, start + each + (partition < more)

    def objective(self, coordinates: np.ndarray) -> float:
        residual = self.columns @ coordinates - self.b
        return float(0.5 * residual @ residual + 0.5 * self.lam * coordinates @ coordinates)

    def gap(self, coordinates: np.ndarray) -> float:
        """How far the objective is above the optimum at most: Fenchel's dual at the residual."""
        residual = self.columns @ coordinates - self.b
        along = self.columns.T @ residual
        bound = -0.5 * residual @ residual - residual @ self.b - along @ along / (2 * self.lam)
        return float(self.objective(coordinates) - bound)


def dealt(columns: Any, partitions: int) -> Any:
    """The columns in the order in which they lie in partitions."""
    lengths = np.diff(columns.indptr)
    longest = np.argsort(-lengths, kind="stable")
    hands: list[list[int]] = [[] for _ in range(partitions)]
    for turn in range(0, len(longest), partitions):
        cards = longest[turn : turn + partitions]
        back = (turn // partitions) % 2 == 1 and len(cards) == partitions
        for i, card in enumerate(cards):
            hands[partitions - 1 - i if back else i].append(int(card))
    return columns[:, np.concatenate([np.array(hand, np.int64) for hand in hands])]


def prepared(name: str, folder: Path, matrix: Any, b: np.ndarray, lam: float, partitions: int) -> Data:
    """Deals columns, writes partitions, and finds the optimum."""
    from scipy import sparse as scipy_sparse

    columns = dealt(scipy_sparse.csc_matrix(matrix), partitions)
    columns.sort_indices()
    data = Data(name, folder, columns, np.asarray(b, np.float64), lam, partitions)
    sparse.write(folder / "all", columns, data.b)
    for k in range(partitions):
        start, end = data.span(k)
        sparse.write(folder / f"part-{k}", columns[:, start:end], data.b)
        assert len(local_solver.load(str(data.part(k)))[0]) == end - start
    data.optimum = optimum(data)
    return data


def optimum(data: Data) -> float:
    """The lowest objective, by conjugate gradients, and known to `CERTAIN`."""
    from scipy.sparse.linalg import LinearOperator, cg

    columns, n = data.columns, data.columns.shape[1]
    operator = LinearOperator((n, n), lambda x: columns.T @ (columns @ x) + data.lam * x, dtype=np.float64)
    found, failed = cg(operator, columns.T @ data.b, rtol=1e-10, maxiter=20_000)
    value, gap = data.objective(found), data.gap(found)
    if failed or not gap <= CERTAIN * value:
        raise SystemExit(f"{data.name}: conjugate gradients end {gap / value:.1e} of the objective above the optimum")
    return value


def made(folder: Path, size: tuple[int, int, int], lam: float, partitions: int) -> Data:
    """A generated problem: rows, columns, entries per row."""
    random = np.random.default_rng(11)
    matrix = sparse.power_law(*size, random)
    b = sparse.targets(matrix, random)
    name = f"generated, {size[0]} rows, {size[1]} columns, {matrix.nnz} entries"
    return prepared(name, folder, matrix, b, lam, partitions)


def read(folder: Path, path: Path, lam: float, partitions: int) -> Data:
    """A LIBSVM file, gzipped or not."""
    import gzip

    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    labels: list[float] = []
    places: tuple[list[int], list[int], list[float]] = ([], [], [])
    with opened as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                row = len(labels)
                labels.append(float(words[0]))
                for word in words[1:]:
                    column, _, value = word.partition(":")
                    places[0].append(row)
                    places[1].append(int(column) - 1)
                    places[2].append(float(value))
            except ValueError:
                raise SystemExit(f"{path}, line {number}: '{line.strip()[:60]}' is no line of a LIBSVM file") from None
    if not labels or not places[1] or min(places[1]) < 0:
        raise SystemExit(f"{path} has no rows, or columns that are not counted from 1")
    from scipy import sparse as scipy_sparse

    matrix = scipy_sparse.coo_matrix((places[2], places[:2]), shape=(len(labels), max(places[1]) + 1))
    return prepared(path.name, folder, matrix, np.array(labels), lam, partitions)
