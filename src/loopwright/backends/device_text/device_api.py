"""What generated host code calls of a device's API: a few functions, each checked.

Both texts offer the same functions, so that one printer serves both (`device_host`).
"""

from __future__ import annotations

__all__ = ["CUDA_API", "OPENCL_API"]

_SHARED = """
/* Every kernel is there twice. Threads beyond the end of an array compute subscripts, too: those of
   32 bits serve sizes that leave them a bit. */
#ifndef LW_REACH
#define LW_REACH (1LL << 30)
#endif
LW_HELPER int lw_is_far(long long value)
{
    return value >= LW_REACH || value <= -LW_REACH;
}
/* Memory of the device begins with row zero of an array. */
LW_HELPER void lw_check_first(long long row, const char *what, const char *place)
{
    if (row < 0) {
        fprintf(stderr, "%s: '%s' is used from row %lld on; a device has none below zero\\n", place,
                what, row);
        exit(1);
    }
}
"""

CUDA_API = (
    """/* -- functions that the user's file calls --------------------------------------------- */

#define lw_stream cudaStreamPerThread
#define LW_HELPER [[maybe_unused]] static inline

LW_HELPER void lw_check(cudaError_t status, const char *call, const char *what,
                        const char *place)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s, '%s': %s\\n", place, call, what, cudaGetErrorString(status));
    exit(1);
}
"""
    + _SHARED
    + """LW_HELPER void *lw_allocate(long long bytes, const char *what, const char *place)
{
    void *memory = nullptr;
    lw_check(cudaMalloc(&memory, bytes > 0 ? (size_t)bytes : 1), "cudaMalloc", what, place);
    return memory;
}
LW_HELPER void lw_release(void *memory, const char *what, const char *place)
{
    lw_check(cudaFree(memory), "cudaFree", what, place);
}
LW_HELPER void lw_bring_in(void *memory, const void *host, long long first, long long bytes,
                           const char *what, const char *place)
{
    if (bytes > 0)
        lw_check(cudaMemcpyAsync((char *)memory + first, (const char *)host + first, (size_t)bytes,
                                 cudaMemcpyHostToDevice, lw_stream),
                 "cudaMemcpyAsync to the device", what, place);
}
LW_HELPER void lw_bring_back(void *memory, void *host, long long first, long long bytes,
                             const char *what, const char *place)
{
    if (bytes > 0)
        lw_check(cudaMemcpyAsync((char *)host + first, (const char *)memory + first, (size_t)bytes,
                                 cudaMemcpyDeviceToHost, lw_stream),
                 "cudaMemcpyAsync from the device", what, place);
}
/* A kernel that fails while it runs is told here: CUDA_LAUNCH_BLOCKING=1 tells which one it is. */
LW_HELPER void lw_finish(const char *kernels, const char *place)
{
    lw_check(cudaStreamSynchronize(lw_stream), "cudaStreamSynchronize", kernels, place);
}
template <class Kernel>
static inline void lw_launch_one(Kernel *kernel, const char *name, const long long *grid,
                                 dim3 block, size_t shared, void **arguments, const char *place)
{
    if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0)
        return;
    if (grid[0] > 2147483647 || grid[1] > 65535 || grid[2] > 65535) {
        fprintf(stderr, "%s: kernel '%s' needs too many blocks: %lld x %lld x %lld\\n", place, name,
                grid[0], grid[1], grid[2]);
        exit(1);
    }
    if (shared > 0)
        lw_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)shared),
                 "cudaFuncSetAttribute", name, place);
    const dim3 blocks((unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]);
    lw_check(cudaLaunchKernel(kernel, blocks, block, arguments, shared, lw_stream),
             "cudaLaunchKernel", name, place);
}
/* Integers lie in 64 bits: a kernel that takes 32 of them finds them first, on hosts of CUDA. */
template <class Narrow, class Wide>
static inline void lw_launch(Narrow *narrow, Wide *wide, int is_wide, const char *name,
                             const long long *grid, dim3 block, size_t shared, void **arguments,
                             const char *place)
{
    if (is_wide)
        lw_launch_one(wide, name, grid, block, shared, arguments, place);
    else
        lw_launch_one(narrow, name, grid, block, shared, arguments, place);
}
"""
)

OPENCL_API = (
    """#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LW_HELPER static inline

static const char *lw_source[] = {
#include "@KERNELS@"
};

static cl_context lw_context;
static cl_command_queue lw_queue;
static cl_device_id lw_device;
static cl_program lw_programs[2]; /* with subscripts of 32 and of 64 bits, when first needed */

LW_HELPER void lw_check(cl_int status, const char *call, const char *what, const char *place)
{
    if (status == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: %s, '%s': error %d of OpenCL\\n", place, call, what, (int)status);
    exit(1);
}
"""
    + _SHARED
    + """
/* The first GPU, else the first device; only those whose names hold LW_DEVICE, if it is set. */
static cl_device_id lw_find_device(const char *place)
{
    static const cl_device_type kinds[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
    const char *wanted = getenv("LW_DEVICE");
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    lw_check(clGetPlatformIDs(16, platforms, &platform_count), "clGetPlatformIDs", "", place);
    for (int kind = 0; kind < 2; kind++)
        for (cl_uint p = 0; p < platform_count && p < 16; p++) {
            cl_device_id devices[16];
            cl_uint count = 0;
            if (clGetDeviceIDs(platforms[p], kinds[kind], 16, devices, &count) != CL_SUCCESS)
                continue;
            for (cl_uint d = 0; d < count && d < 16; d++) {
                char name[256] = "";
                clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
                if (wanted == NULL || strstr(name, wanted) != NULL)
                    return devices[d];
            }
        }
    fprintf(stderr, "%s: there is no such OpenCL device: '%s'\\n", place,
            wanted == NULL ? "" : wanted);
    exit(1);
}
static void lw_start(const char *place)
{
    if (lw_context != NULL)
        return;
    lw_device = lw_find_device(place);
    cl_int status;
    lw_context = clCreateContext(NULL, 1, &lw_device, NULL, NULL, &status);
    lw_check(status, "clCreateContext", "", place);
    lw_queue = clCreateCommandQueue(lw_context, lw_device, 0, &status);
    lw_check(status, "clCreateCommandQueue", "", place);
}
static cl_program lw_program(int is_wide, const char *place)
{
    if (lw_programs[is_wide] != NULL)
        return lw_programs[is_wide];
    cl_int status;
    const cl_program program = clCreateProgramWithSource(
        lw_context, sizeof lw_source / sizeof lw_source[0], lw_source, NULL, &status);
    lw_check(status, "clCreateProgramWithSource", "@KERNELS@", place);
    cl_device_fp_config rounding = 0;
    clGetDeviceInfo(lw_device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof rounding, &rounding, NULL);
    char options[80] = "";
    if (rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT)
        strcpy(options, "-cl-fp32-correctly-rounded-divide-sqrt ");
    strcat(options, is_wide ? "-DLW_INDEX=long" : "-DLW_INDEX=int");
    status = clBuildProgram(program, 1, &lw_device, options, NULL, NULL);
    if (status != CL_SUCCESS) {
        static char log[16384];
        clGetProgramBuildInfo(program, lw_device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fprintf(stderr, "%s\\n", log);
    }
    lw_check(status, "clBuildProgram", "@KERNELS@", place);
    return lw_programs[is_wide] = program;
}
LW_HELPER cl_mem lw_allocate(long long bytes, const char *what, const char *place)
{
    cl_int status;
    const cl_mem memory = clCreateBuffer(lw_context, CL_MEM_READ_WRITE,
                                         bytes > 0 ? (size_t)bytes : 1, NULL, &status);
    lw_check(status, "clCreateBuffer", what, place);
    return memory;
}
LW_HELPER void lw_release(cl_mem memory, const char *what, const char *place)
{
    lw_check(clReleaseMemObject(memory), "clReleaseMemObject", what, place);
}
LW_HELPER void lw_bring_in(cl_mem memory, const void *host, long long first, long long bytes,
                           const char *what, const char *place)
{
    if (bytes > 0)
        lw_check(clEnqueueWriteBuffer(lw_queue, memory, CL_FALSE, (size_t)first, (size_t)bytes,
                                      (const char *)host + first, 0, NULL, NULL),
                 "clEnqueueWriteBuffer", what, place);
}
LW_HELPER void lw_bring_back(cl_mem memory, void *host, long long first, long long bytes,
                             const char *what, const char *place)
{
    if (bytes > 0)
        lw_check(clEnqueueReadBuffer(lw_queue, memory, CL_FALSE, (size_t)first, (size_t)bytes,
                                     (char *)host + first, 0, NULL, NULL),
                 "clEnqueueReadBuffer", what, place);
}
LW_HELPER void lw_finish(const char *kernels, const char *place)
{
    lw_check(clFinish(lw_queue), "clFinish", kernels, place);
}
static void lw_launch(const char *name, int is_wide, const long long *grid, const size_t *block,
                      cl_uint count, const size_t *sizes, const void *const *arguments,
                      const char *place)
{
    if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0)
        return;
    size_t threads[3];
    for (int axis = 0; axis < 3; axis++)
        threads[axis] = (size_t)grid[axis] * block[axis];
    cl_int status;
    const cl_kernel kernel = clCreateKernel(lw_program(is_wide, place), name, &status);
    lw_check(status, "clCreateKernel", name, place);
    for (cl_uint at = 0; at < count; at++)
        lw_check(clSetKernelArg(kernel, at, sizes[at], arguments[at]), "clSetKernelArg", name,
                 place);
    lw_check(clEnqueueNDRangeKernel(lw_queue, kernel, 3, NULL, threads, block, 0, NULL, NULL),
             "clEnqueueNDRangeKernel", name, place);
    lw_check(clReleaseKernel(kernel), "clReleaseKernel", name, place);
}
"""
)
