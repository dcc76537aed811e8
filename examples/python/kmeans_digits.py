"""K-means on handwritten digits: fits ten centres, says how well they match the digits, and draws them.

    python kmeans_digits.py [WORKERS] [PICTURE.png]

Needs scikit-learn, whose data it uses. The result is the same on all workers.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from qjam.learn import KMeans


def draw(centres: np.ndarray, path: str, zoom: int = 8) -> None:
    """Writes the centres side by side as a grey picture."""
    tiles = np.pad(centres.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    grey = 255 - np.clip(np.concatenate(list(tiles), axis=1) / 16 * 255, 0, 255)
    rows = np.kron(grey, np.ones((zoom, zoom))).astype(np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 0, 0, 0, 0)
    parts = part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def main() -> None:
    workers = sys.argv[1] if len(sys.argv) > 1 else None
    rows, digits = load_digits(return_X_y=True)
    model = KMeans(10, n_init=5, random_state=0, workers=workers).fit(rows)
    match = adjusted_rand_score(digits, model.labels_)
    print(f"inertia {model.inertia_:.3f} after {model.n_iter_} iterations; agreement with the digits {match:.3f}")
    if len(sys.argv) > 2:
        draw(model.cluster_centers_, sys.argv[2])
        print(f"drew the centres to {sys.argv[2]}")


if __name__ == "__main__":
    main()
