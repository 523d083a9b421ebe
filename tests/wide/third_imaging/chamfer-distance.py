"""The distance of every pixel from the nearest mark: one pass down and one up."""


def kernel_chamfer_distance(rows, cols, mark, dist, farthest):
    for y in range(rows):
        for x in range(cols):
            d = 60000
            if mark[y, x] != 0:
                d = 0
            if x > 0:
                d = min(d, dist[y, x - 1] + 3)
            if y > 0:
                d = min(d, dist[y - 1, x] + 3)
                if x > 0:
                    d = min(d, dist[y - 1, x - 1] + 4)
                if x < cols - 1:
                    d = min(d, dist[y - 1, x + 1] + 4)
            dist[y, x] = d
    for y in range(rows - 1, -1, -1):
        for x in range(cols - 1, -1, -1):
            d = dist[y, x]
            if x < cols - 1:
                d = min(d, dist[y, x + 1] + 3)
            if y < rows - 1:
                d = min(d, dist[y + 1, x] + 3)
                if x < cols - 1:
                    d = min(d, dist[y + 1, x + 1] + 4)
                if x > 0:
                    d = min(d, dist[y + 1, x - 1] + 4)
            dist[y, x] = d
    farthest[0] = 0
    for y in range(rows):
        for x in range(cols):
            if dist[y, x] > farthest[0]:
                farthest[0] = dist[y, x]
