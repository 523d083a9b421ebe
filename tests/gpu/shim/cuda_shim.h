// CUDA C++ on a host compiler, for tests: one block after another, its threads as fibres.
//
// What a device leaves open is made as bad as it may be: blocks run in an order drawn from a seed,
// and so do the threads of a block between two barriers; shared memory starts as NaNs in each
// block; an asynchronous copy ruins its target at once and brings the data at the wait. A barrier
// that some thread of the block does not reach, or that threads reach in different places, ends
// the launch with a message. Address and undefined-behaviour sanitisers see every access.
#pragma once

#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
// A section of their own lets every block start with all of them overwritten.
#define __shared__ static __attribute__((section("lw_blocks"), used))

// -- vector types -------------------------------------------------------------------------------

#define LW_VECTOR(name, type, bytes2, bytes4)                                                      \
    struct name##1 { type x; };                                                                    \
    struct alignas(bytes2) name##2 { type x, y; };                                                 \
    struct name##3 { type x, y, z; };                                                              \
    struct alignas(bytes4) name##4 { type x, y, z, w; };                                           \
    static inline name##1 make_##name##1(type x) { return {x}; }                                   \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                        \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }             \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

LW_VECTOR(char, signed char, 2, 4)
LW_VECTOR(uchar, unsigned char, 2, 4)
LW_VECTOR(short, short, 4, 8)
LW_VECTOR(ushort, unsigned short, 4, 8)
LW_VECTOR(int, int, 8, 16)
LW_VECTOR(uint, unsigned, 8, 16)
LW_VECTOR(longlong, long long, 16, 16)
LW_VECTOR(ulonglong, unsigned long long, 16, 16)
LW_VECTOR(float, float, 8, 16)
LW_VECTOR(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

// -- threads of a block -------------------------------------------------------------------------

namespace lw_shim {

constexpr unsigned LANES = 32;
constexpr unsigned MOST_THREADS = 1024;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK = 512 * 1024;
#else
constexpr size_t STACK = 256 * 1024;
#endif

enum State { READY, AT_BARRIER, AT_WARP, ENDED };

struct Copy {
    void *target;
    const void *source;
    unsigned bytes, read;  // the rest is filled with zeros
    unsigned char seen[16];  // what the source held when the copy was asked for
};

struct Fibre {
    ucontext_t context;
    char *stack = nullptr;
    State state = ENDED;
    int line = 0;  // of the barrier where it waits
    unsigned lanes = 0;  // of the warp that must come as well
    uint3 index;
    std::vector<std::vector<Copy>> groups;  // the last one is open
    jmp_buf place;
    bool has_begun = false;
    void *fake_stack = nullptr;  // the address sanitiser's
};

static Fibre fibres[MOST_THREADS];
static Fibre *current;
static ucontext_t scheduler;
static jmp_buf scheduler_place;
static void *scheduler_fake_stack;
static const void *scheduler_stack;
static size_t scheduler_size;
static unsigned threads;
static char message[512];  // of the fault that ended the launch, empty if there was none
static void (*entry)(void **);
static void **arguments;
static unsigned char exchange[MOST_THREADS][16];  // values that lanes hand to one another

// The ends of the section of shared memory: there only where a kernel has some.
extern "C" __attribute__((weak)) char __start_lw_blocks[], __stop_lw_blocks[];
static char *dynamic_memory;  // the array that is declared extern __shared__, if there is one
static size_t dynamic_capacity;

#if defined(__SANITIZE_ADDRESS__)
static void to_scheduler(bool ended = false) {
    Fibre *self = current;
    __sanitizer_start_switch_fiber(ended ? nullptr : &self->fake_stack, scheduler_stack,
                                   scheduler_size);
    swapcontext(&self->context, &scheduler);
    __sanitizer_finish_switch_fiber(self->fake_stack, nullptr, nullptr);
}

static void resume(Fibre &fibre) {
    current = &fibre;
    threadIdx = fibre.index;
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, fibre.stack, STACK);
    swapcontext(&scheduler, &fibre.context);
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
}
#else
// Jumps between stacks, once a fibre has begun: swapcontext asks the kernel for the signals that
// are blocked, which takes longer than all the rest.
static void to_scheduler(bool = false) {
    if (!_setjmp(current->place)) _longjmp(scheduler_place, 1);
}

static void resume(Fibre &fibre) {
    current = &fibre;
    threadIdx = fibre.index;
    if (_setjmp(scheduler_place)) return;
    if (fibre.has_begun) _longjmp(fibre.place, 1);
    fibre.has_begun = true;
    setcontext(&fibre.context);
}
#endif

// End the launch with a message. The other fibres never run again.
template <class... A> static void fail(const char *format, A... a) {
    if (!message[0]) {
        int n = snprintf(message, sizeof message, "block (%u, %u, %u): ", blockIdx.x, blockIdx.y,
                         blockIdx.z);
        snprintf(message + n, sizeof message - n, format, a...);
    }
    if (current) {
        current->state = ENDED;
        to_scheduler(true);
    }
}

static void run_thread() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
#endif
    entry(arguments);
    current->state = ENDED;
    to_scheduler(true);
}

static void start(Fibre &fibre) {
    if (!fibre.stack) {
        void *stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) abort();
        mprotect(stack, 4096, PROT_NONE);  // what overflows must not reach its neighbour
        fibre.stack = static_cast<char *>(stack);
    }
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack;
    fibre.context.uc_stack.ss_size = STACK;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, run_thread, 0);
    fibre.state = READY;
    fibre.groups.clear();
    fibre.groups.emplace_back();
    fibre.fake_stack = nullptr;
    fibre.has_begun = false;
}

static uint64_t random_state;

static unsigned below(unsigned limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<unsigned>((random_state >> 32) % limit);
}

template <class T> static void shuffle(T *order, unsigned count) {
    for (unsigned i = count; i > 1; --i) {
        unsigned j = below(i);
        T swapped = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swapped;
    }
}

// Let the lanes of a warp go on that wait for no lane which is still to come.
static bool release_warps() {
    bool released = false;
    for (unsigned first = 0; first < threads; first += LANES) {
        unsigned last = first + LANES < threads ? first + LANES : threads, waiting = 0;
        for (unsigned t = first; t < last; ++t)
            if (fibres[t].state == AT_WARP) waiting |= 1u << (t - first);
        unsigned here = last - first == LANES ? ~0u : (1u << (last - first)) - 1;
        for (unsigned t = first; t < last; ++t) {
            unsigned wanted = fibres[t].lanes & here;
            if (fibres[t].state == AT_WARP && (wanted & waiting) == wanted) {
                fibres[t].state = READY;
                released = true;
            }
        }
    }
    return released;
}

// Let all threads go on where all wait at one barrier; the others are stuck: say so.
static bool release_block() {
    unsigned ended = 0, waiting = 0;
    int line = 0, other = 0;
    for (unsigned t = 0; t < threads; ++t) {
        if (fibres[t].state == ENDED) ++ended;
        if (fibres[t].state != AT_BARRIER) continue;
        ++waiting;
        if (line == 0) line = fibres[t].line;
        if (fibres[t].line != line) other = fibres[t].line;
    }
    current = nullptr;
    if (ended == threads) return false;
    if (waiting + ended < threads)
        fail("%u of %u threads wait for lanes of their warp that never come",
             threads - waiting - ended, threads);
    else if (ended)
        fail("the barrier of line %d is not reached by all threads: %u wait, %u have ended", line,
             waiting, ended);
    else if (other)
        fail("threads wait at different barriers, of lines %d and %d", line < other ? line : other,
             line < other ? other : line);
    else
        for (unsigned t = 0; t < threads; ++t) fibres[t].state = READY;
    return !message[0];
}

static void run_block(unsigned *order) {
    if (__start_lw_blocks) memset(__start_lw_blocks, 0xff, __stop_lw_blocks - __start_lw_blocks);
    for (unsigned t = 0; t < threads; ++t) {
        fibres[t].index = {t % blockDim.x, t / blockDim.x % blockDim.y,
                           t / (blockDim.x * blockDim.y)};
        start(fibres[t]);
    }
    do {
        shuffle(order, threads);
        do {
            for (unsigned i = 0; i < threads; ++i) {
                if (fibres[order[i]].state == READY) resume(fibres[order[i]]);
                if (message[0]) return;
            }
        } while (release_warps());
    } while (release_block());
}

// Run a grid; the fault that ended it, or null.
static const char *run_grid(void (*kernel)(void **), void **values, const unsigned *grid,
                            const unsigned *block, size_t dynamic_bytes, uint64_t seed) {
    static unsigned order[MOST_THREADS];
    message[0] = 0;
    current = nullptr;
    blockIdx = {0, 0, 0};
    entry = kernel;
    arguments = values;
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    threads = block[0] * block[1] * block[2];
    random_state = seed * 0x9E3779B97F4A7C15ull + 0x2545F4914F6CDD1Dull;
    if (random_state == 0) random_state = 1;
    if (threads == 0 || threads > MOST_THREADS)
        fail("%u threads of a block; there may be 1 to %u", threads, MOST_THREADS);
    if (dynamic_bytes > dynamic_capacity)
        fail("%zu bytes of dynamic shared memory; the text declares %s", dynamic_bytes,
             dynamic_capacity ? "less" : "none");
    if (message[0]) return message;
    for (unsigned t = 0; t < threads; ++t) order[t] = t;
    std::vector<unsigned> blocks(static_cast<size_t>(grid[0]) * grid[1] * grid[2]);
    for (size_t b = 0; b < blocks.size(); ++b) blocks[b] = static_cast<unsigned>(b);
    shuffle(blocks.data(), static_cast<unsigned>(blocks.size()));
    for (unsigned b : blocks) {
        blockIdx = {b % grid[0], b / grid[0] % grid[1], b / (grid[0] * grid[1])};
        if (dynamic_memory) {
#if defined(__SANITIZE_ADDRESS__)
            ASAN_UNPOISON_MEMORY_REGION(dynamic_memory, dynamic_capacity);
#endif
            memset(dynamic_memory, 0xff, dynamic_capacity);
#if defined(__SANITIZE_ADDRESS__)
            ASAN_POISON_MEMORY_REGION(dynamic_memory + dynamic_bytes,
                                      dynamic_capacity - dynamic_bytes);
#endif
        }
        run_block(order);
        if (message[0]) return message;
    }
    return nullptr;
}

static void barrier(int line) {
    current->state = AT_BARRIER;
    current->line = line;
    to_scheduler();
}

static void warp_barrier(unsigned lanes) {
    unsigned t = static_cast<unsigned>(current - fibres);
    if (!(lanes >> t % LANES & 1))
        fail("thread %u names lanes %#x of its warp, its own not among them", t, lanes);
    current->state = AT_WARP;
    current->lanes = lanes;
    to_scheduler();
}

// The value that lane `from` of the warp holds; a lane that is not there leaves what was.
template <class T> static T from_lane(unsigned lanes, T value, unsigned from) {
    static_assert(sizeof(T) <= 16, "lanes exchange values of 16 bytes at most");
    unsigned t = static_cast<unsigned>(current - fibres), first = t / LANES * LANES;
    memcpy(exchange[t], &value, sizeof(T));
    warp_barrier(lanes);
    T got = value;
    if (first + from < threads) memcpy(&got, exchange[first + from], sizeof(T));
    warp_barrier(lanes);
    return got;
}

static unsigned lane() { return static_cast<unsigned>(current - fibres) % LANES; }

static void copy_later(void *target, const void *source, unsigned bytes, unsigned read) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        fail("an asynchronous copy of %u bytes; 4, 8 and 16 can be had", bytes);
    if (reinterpret_cast<uintptr_t>(target) % bytes || reinterpret_cast<uintptr_t>(source) % bytes)
        fail("an asynchronous copy of %u bytes between addresses that are no multiples", bytes);
    Copy copy{target, source, bytes, read, {}};
    if (read) memcpy(copy.seen, source, read);
    memset(target, 0xff, bytes);
    current->groups.back().push_back(copy);
}

static void commit_copies() { current->groups.emplace_back(); }

static void wait_for_copies(unsigned unfinished) {
    auto &groups = current->groups;
    while (groups.size() > unfinished + 1) {
        for (const Copy &copy : groups.front()) {
            if (copy.read && memcmp(copy.seen, copy.source, copy.read))
                fail("the source of an asynchronous copy was changed before it was there");
            memset(copy.target, 0, copy.bytes);
            if (copy.read) memcpy(copy.target, copy.seen, copy.read);
        }
        groups.erase(groups.begin());
    }
}

}  // namespace lw_shim

#define __syncthreads() lw_shim::barrier(__LINE__)
static inline void __syncwarp(unsigned lanes = ~0u) { lw_shim::warp_barrier(lanes); }

template <class T> T __shfl_sync(unsigned lanes, T value, int from, int width = 32) {
    unsigned own = lw_shim::lane(), first = own / width * width;
    return lw_shim::from_lane(lanes, value, first + static_cast<unsigned>(from) % width);
}
template <class T> T __shfl_xor_sync(unsigned lanes, T value, int mask, int width = 32) {
    unsigned own = lw_shim::lane(), from = own ^ static_cast<unsigned>(mask);
    return lw_shim::from_lane(lanes, value, from < own / width * width + width ? from : own);
}
template <class T> T __shfl_down_sync(unsigned lanes, T value, unsigned by, int width = 32) {
    unsigned own = lw_shim::lane(), from = own + by;
    return lw_shim::from_lane(lanes, value, from < own / width * width + width ? from : own);
}
template <class T> T __shfl_up_sync(unsigned lanes, T value, unsigned by, int width = 32) {
    unsigned own = lw_shim::lane();
    return lw_shim::from_lane(lanes, value, own % width >= by ? own - by : own);
}
static inline unsigned __ballot_sync(unsigned lanes, int predicate) {
    unsigned found = 0;
    for (unsigned from = 0; from < lw_shim::LANES; ++from) {
        bool is_there = lanes >> from & 1;
        if (is_there && lw_shim::from_lane(lanes, predicate, from)) found |= 1u << from;
    }
    return found;
}
static inline int __any_sync(unsigned lanes, int p) { return __ballot_sync(lanes, p) != 0; }
static inline int __all_sync(unsigned lanes, int p) { return __ballot_sync(lanes, p) == lanes; }
static inline unsigned __activemask() { return ~0u; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

// -- asynchronous copies: each thread waits for its own, in the order of its groups ---------------

#define LW_HAS_COPIES 1
template <int bytes> void lw_copy_async(void *target, const void *source) {
    lw_shim::copy_later(target, source, bytes, bytes);
}
template <int bytes> void lw_copy_async(void *target, const void *source, int read) {
    lw_shim::copy_later(target, source, bytes, static_cast<unsigned>(read));
}
template <class T> void lw_copy_async(T *target, const T *source) {
    lw_shim::copy_later(target, source, sizeof(T), sizeof(T));
}
static inline void lw_commit() { lw_shim::commit_copies(); }
template <int unfinished> void lw_wait() { lw_shim::wait_for_copies(unfinished); }
static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes,
                                           size_t zeros = 0) {
    lw_shim::copy_later(to, from, static_cast<unsigned>(bytes),
                        static_cast<unsigned>(bytes - zeros));
}
static inline void __pipeline_commit() { lw_shim::commit_copies(); }
static inline void __pipeline_wait_prior(unsigned n) { lw_shim::wait_for_copies(n); }

#include "cuda_shim_numbers.h"

using std::signbit; // a device has it without a namespace
