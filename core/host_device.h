#pragma once

// Marks the formulas that CPU and CUDA kernels share.
#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
