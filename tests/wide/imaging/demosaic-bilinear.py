"""Colours of a Bayer mosaic by bilinear interpolation, two by two pixels at a time."""


def kernel_demosaic_bilinear(h, w, raw, red, green, blue):
    for y in range(2, h - 2, 2):
        for x in range(2, w - 2, 2):
            red[y, x] = raw[y, x]
            green[y, x] = (raw[y - 1, x] + raw[y + 1, x] + raw[y, x - 1] + raw[y, x + 1]) / 4
            blue[y, x] = (
                raw[y - 1, x - 1] + raw[y - 1, x + 1] + raw[y + 1, x - 1] + raw[y + 1, x + 1]
            ) / 4

            red[y, x + 1] = (raw[y, x] + raw[y, x + 2]) / 2
            green[y, x + 1] = raw[y, x + 1]
            blue[y, x + 1] = (raw[y - 1, x + 1] + raw[y + 1, x + 1]) / 2

            red[y + 1, x] = (raw[y, x] + raw[y + 2, x]) / 2
            green[y + 1, x] = raw[y + 1, x]
            blue[y + 1, x] = (raw[y + 1, x - 1] + raw[y + 1, x + 1]) / 2

            red[y + 1, x + 1] = (raw[y, x] + raw[y, x + 2] + raw[y + 2, x] + raw[y + 2, x + 2]) / 4
            green[y + 1, x + 1] = (
                raw[y, x + 1] + raw[y + 2, x + 1] + raw[y + 1, x] + raw[y + 1, x + 2]
            ) / 4
            blue[y + 1, x + 1] = raw[y + 1, x + 1]
