"""The game of life on a torus, from C as people write it: a rule function, periodic borders.

The call in the innermost statement is inlined, and the subscripts with conditions are read exactly:
which cells meet at the border is a fact for the planner, not a question at run time.
Run it with `python examples/game_of_life.py`.
"""

import tempfile
from pathlib import Path

import numpy as np

import loopwright as lw

C = """
static int rule(int alive, int neighbours) {
    if (neighbours == 3) return 1;
    return alive && neighbours == 2;
}

void life(int n, int m, int now[n][m], int next[n][m]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int up = i == 0 ? n - 1 : i - 1, down = i == n - 1 ? 0 : i + 1;
            int left = j == 0 ? m - 1 : j - 1, right = j == m - 1 ? 0 : j + 1;
            next[i][j] = rule(now[i][j],
                now[up][left] + now[up][j] + now[up][right] + now[i][left] + now[i][right]
                + now[down][left] + now[down][j] + now[down][right]);
        }
#pragma endscop
}
"""


def main() -> None:
    """Let a glider walk across the border and compare every generation with NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "life.c"
        file.write_text(C, encoding="utf-8")
        life = lw.compile(str(file))
    board = np.zeros((8, 12), dtype=np.int32)
    board[0:3, 0:3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    for _ in range(32):
        after = np.empty_like(board)
        life(*board.shape, board, after)
        shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        around = sum(np.roll(board, shift, (0, 1)) for shift in shifts)
        expected = (around == 3) | ((board == 1) & (around == 2))
        assert (after == expected).all()
        board = after
    print("after 32 generations, as NumPy has it:")
    print("\n".join("".join(".#"[cell] for cell in row) for row in board))


if __name__ == "__main__":
    main()
