// The part of CUDA's runtime API that generated host code uses, for tests: see cuda_shim.h.
//
// Memory of the device starts as bytes 0xff. A copy must lie within one allocation, and all memory
// must be given back: what is not so ends the process with a message and status 7.
#pragma once

#include <map>
#include <type_traits>
#include <utility>

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2,
                   cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
typedef void *cudaStream_t;
#define cudaStreamPerThread ((cudaStream_t)2)

namespace lw_shim {

static std::map<const char *, size_t> memory;  // of the device: bytes by address
static uint64_t launches, wide, moved_in, moved_back;

[[noreturn]] static void runtime_fault(const char *what) {
    fprintf(stderr, "shim: %s\n", what);
    _Exit(7);
}

// The end of the process: tells what was done where LW_SHIM_COUNT is set.
struct AtEnd {
    ~AtEnd() {
        fflush(nullptr);
        if (!memory.empty()) runtime_fault("memory of the device is not given back");
        if (getenv("LW_SHIM_COUNT"))
            fprintf(stderr, "%llu launches, %llu of them wide, %llu bytes in, %llu bytes back\n",
                    (unsigned long long)launches, (unsigned long long)wide,
                    (unsigned long long)moved_in, (unsigned long long)moved_back);
    }
};
static AtEnd at_end;

static void check_inside(const void *place, size_t bytes) {
    auto found = memory.upper_bound(static_cast<const char *>(place));
    if (found == memory.begin()) runtime_fault("a copy is outside of all memory");
    --found;
    if (static_cast<const char *>(place) + bytes > found->first + found->second)
        runtime_fault("a copy reaches beyond its memory");
}

template <class... A, size_t... I>
static void call_with(void (*kernel)(A...), void **values, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<std::remove_cv_t<A>> *>(values[I])...);
}

}  // namespace lw_shim

static const char *cudaGetErrorString(cudaError_t status) {
    if (status == cudaErrorMemoryAllocation) return "out of memory";
    return status == cudaErrorLaunchFailure ? lw_shim::message : "invalid argument";
}
static cudaError_t cudaMalloc(void **place, size_t bytes) {
    const char *most = getenv("LW_SHIM_MEMORY");
    if (most && bytes > strtoull(most, nullptr, 10)) return cudaErrorMemoryAllocation;
    *place = malloc(bytes);
    memset(*place, 0xff, bytes);
    lw_shim::memory[static_cast<char *>(*place)] = bytes;
    return cudaSuccess;
}
static cudaError_t cudaFree(void *place) {
    if (!lw_shim::memory.erase(static_cast<char *>(place))) return cudaErrorInvalidValue;
    free(place);
    return cudaSuccess;
}
static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
    lw_shim::check_inside(kind == cudaMemcpyHostToDevice ? to : from, bytes);
    (kind == cudaMemcpyHostToDevice ? lw_shim::moved_in : lw_shim::moved_back) += bytes;
    memcpy(to, from, bytes);
    return cudaSuccess;
}
static cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
template <class Kernel>
static cudaError_t cudaFuncSetAttribute(Kernel *, cudaFuncAttribute, int bytes) {
    return bytes <= 228 * 1024 ? cudaSuccess : cudaErrorInvalidValue;
}
template <class... A>
static cudaError_t cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void **arguments,
                                    size_t bytes, cudaStream_t) {
    static void (*current)(A...);
    current = kernel;
    lw_shim::wide += (std::is_same_v<A, long long> || ...);  // sizes and strides of 64 bits
    const unsigned blocks[] = {grid.x, grid.y, grid.z}, threads[] = {block.x, block.y, block.z};
    auto entry = [](void **values) {
        lw_shim::call_with(current, values, std::index_sequence_for<A...>());
    };
    return lw_shim::run_grid(entry, arguments, blocks, threads, bytes, lw_shim::launches++)
               ? cudaErrorLaunchFailure
               : cudaSuccess;
}
