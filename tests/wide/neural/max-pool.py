"""The greatest of windows three by three, two apart."""


def kernel_max_pool(c, oh, ow, img, out):
    for k in range(c):
        for y in range(oh):
            for x in range(ow):
                best = img[k, 2 * y, 2 * x]
                for a in range(3):
                    for b in range(3):
                        best = max(best, img[k, 2 * y + a, 2 * x + b])
                out[k, y, x] = best
