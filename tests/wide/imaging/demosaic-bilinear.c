/* Colours of a Bayer mosaic (red at even rows and columns, blue at odd ones) by bilinear
   interpolation, two by two pixels at a time. */
void kernel_demosaic_bilinear(int h, int w, double raw[h][w], double red[h][w],
                              double green[h][w], double blue[h][w])
{
    int y, x;

#pragma scop
    for (y = 2; y < h - 2; y += 2)
        for (x = 2; x < w - 2; x += 2) {
            red[y][x] = raw[y][x];
            green[y][x] = (raw[y - 1][x] + raw[y + 1][x] + raw[y][x - 1] + raw[y][x + 1]) / 4;
            blue[y][x] = (raw[y - 1][x - 1] + raw[y - 1][x + 1] + raw[y + 1][x - 1]
                          + raw[y + 1][x + 1]) / 4;

            red[y][x + 1] = (raw[y][x] + raw[y][x + 2]) / 2;
            green[y][x + 1] = raw[y][x + 1];
            blue[y][x + 1] = (raw[y - 1][x + 1] + raw[y + 1][x + 1]) / 2;

            red[y + 1][x] = (raw[y][x] + raw[y + 2][x]) / 2;
            green[y + 1][x] = raw[y + 1][x];
            blue[y + 1][x] = (raw[y + 1][x - 1] + raw[y + 1][x + 1]) / 2;

            red[y + 1][x + 1] = (raw[y][x] + raw[y][x + 2] + raw[y + 2][x] + raw[y + 2][x + 2]) / 4;
            green[y + 1][x + 1] = (raw[y][x + 1] + raw[y + 2][x + 1] + raw[y + 1][x]
                                   + raw[y + 1][x + 2]) / 4;
            blue[y + 1][x + 1] = raw[y + 1][x + 1];
        }
#pragma endscop
}
