"""Products of rows with a matrix, summed in one order: a row's is the same alone and among others.

BLAS orders its sums by the shape of the whole table, so that a row's last bits would depend on how
many came with it.
"""

import numpy as np

from dpstream.arrays import FloatArray

_BLOCK_ROWS = 1024


def row_products(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """``rows @ matrix``, every row's products added from the first column to the last.

    Args:
        rows: ``(n, d)``.
        matrix: ``(d, k)``.
    """
    products = np.zeros((rows.shape[0], matrix.shape[1]))
    for start in range(0, rows.shape[0], _BLOCK_ROWS):
        columns = np.ascontiguousarray(rows[start : start + _BLOCK_ROWS].T)
        total = np.zeros((matrix.shape[1], columns.shape[1]))
        for column, factors in zip(columns, matrix, strict=True):
            total += factors[:, None] * column
        products[start : start + _BLOCK_ROWS] = total.T
    return products
