#include "../cuda_shim.h"
#include "../cuda_runtime_shim.h"
