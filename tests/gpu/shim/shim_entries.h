// Behind the text of a module: how tests reach its kernels.
#pragma once

#include <utility>

namespace lw_shim {

// A kernel called with arguments that are given as addresses of their values.
template <class... A, size_t... I>
static void unpack(void (*kernel)(A...), void **values, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<std::remove_cv_t<A>> *>(values[I])...);
}
template <class... A> static void call(void (*kernel)(A...), void **values) {
    unpack(kernel, values, std::index_sequence_for<A...>());
}

}  // namespace lw_shim

// The function lw_run_NAME of the library: null, or the fault that ended the launch.
#define LW_ENTRY(name)                                                                             \
    extern "C" const char *lw_run_##name(void **values, const unsigned *grid,                      \
                                         const unsigned *block, size_t bytes, uint64_t seed) {     \
        return lw_shim::run_grid([](void **v) { lw_shim::call(name, v); }, values, grid, block,    \
                                 bytes, seed);                                                     \
    }

// -- as a program: sanitisers want to be in a process from its start -------------------------------

#ifdef LW_PROGRAM
// Reads numbers of 8 bytes and arrays: grid, block, dynamic bytes, seed, count of arguments; for
// each one the bytes of its array and the offset of its first element, or -1 and the value of a
// scalar. Arrays go back behind one another.
static int lw_program(const char *(*run)(void **, const unsigned *, const unsigned *, size_t,
                                         uint64_t),
                      const char *input, const char *output) {
    FILE *in = fopen(input, "rb");
    auto number = [&] {
        int64_t value;
        if (fread(&value, sizeof value, 1, in) != 1) abort();
        return value;
    };
    unsigned grid[3], block[3];
    for (unsigned &extent : grid) extent = static_cast<unsigned>(number());
    for (unsigned &extent : block) extent = static_cast<unsigned>(number());
    size_t bytes = static_cast<size_t>(number());
    uint64_t seed = static_cast<uint64_t>(number());
    size_t count = static_cast<size_t>(number());
    std::vector<int64_t> sizes(count), slots(count);
    std::vector<char *> memory(count);
    std::vector<void *> values(count);
    for (size_t i = 0; i < count; ++i) {
        sizes[i] = number();
        slots[i] = number();
        values[i] = &slots[i];
        if (sizes[i] < 0) continue;
        size_t size = static_cast<size_t>(sizes[i]);
        memory[i] = static_cast<char *>(malloc(size));  // no byte more, so that none is reached
        if (fread(memory[i], 1, size, in) != size) abort();
        slots[i] += reinterpret_cast<int64_t>(memory[i]);
    }
    fclose(in);
    const char *fault = run(values.data(), grid, block, bytes, seed);
    if (fault) {
        fprintf(stderr, "%s\n", fault);
        return 3;
    }
    FILE *out = fopen(output, "wb");
    for (size_t i = 0; i < count; ++i)
        if (sizes[i] > 0) fwrite(memory[i], 1, static_cast<size_t>(sizes[i]), out);
    return fclose(out) == 0 ? 0 : 4;
}
#define LW_MAIN(name)                                                                              \
    if (!strcmp(argv[1], #name)) return lw_program(lw_run_##name, argv[2], argv[3]);
#endif
