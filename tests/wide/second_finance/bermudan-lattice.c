/* Bermudan payer swaptions on a lattice of short rates: every fourth date may be exercised. */
#include <math.h>

void kernel_bermudan_lattice(int dates, int strikes, int expiry, double dt, double rate[dates][dates],
                             double strike[strikes], double swap[dates + 1], double option[dates + 1],
                             double price[strikes])
{
#pragma scop
    for (int k = 0; k < strikes; k++) {
        for (int j = 0; j <= dates; j++) {
            swap[j] = 0.0;
            option[j] = 0.0;
        }
        for (int i = dates - 1; i >= 0; i--) {
            for (int j = 0; j <= i; j++) {
                double discount = 1.0 / (1.0 + rate[i][j] * dt);
                swap[j] = discount * (0.5 * (swap[j] + swap[j + 1]) + (rate[i][j] - strike[k]) * dt);
                double hold = discount * 0.5 * (option[j] + option[j + 1]);
                if (i <= expiry && i % 4 == 0)
                    option[j] = fmax(hold, swap[j]);
                else
                    option[j] = hold;
            }
        }
        price[k] = option[0];
    }
#pragma endscop
}
