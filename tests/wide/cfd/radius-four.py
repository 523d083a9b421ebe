"""An acoustic step with differences of eighth order along three axes."""


def kernel_radius_four(nz, ny, nx, c, u, vel, next):
    for z in range(nz):
        for y in range(ny):
            for x in range(nx):
                lap = 3 * c[0] * u[z + 4, y + 4, x + 4]
                for r in range(1, 5):
                    lap += c[r] * (
                        u[z + 4 + r, y + 4, x + 4]
                        + u[z + 4 - r, y + 4, x + 4]
                        + u[z + 4, y + 4 + r, x + 4]
                        + u[z + 4, y + 4 - r, x + 4]
                        + u[z + 4, y + 4, x + 4 + r]
                        + u[z + 4, y + 4, x + 4 - r]
                    )
                next[z, y, x] = 2 * u[z + 4, y + 4, x + 4] - next[z, y, x] + vel[z, y, x] * lap
