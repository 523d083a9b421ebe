/* STREAM's copy, as swCandle measures it: get, wait, put, wait, on all CPEs. */
enum { TURNS = 8 };
typedef struct {
    char *from, *to;
} Stream;
