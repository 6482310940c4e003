#pragma once
// The part of CUDA's driver interface that sharing memory and order with it needs. Found at run
// time: nothing includes CUDA's headers or links its libraries, so the library loads without them.

#include <cstddef>
#include <cstdint>
#include <string>

namespace tv {

using CuResult = int;
using CuDevice = int;
using CuDevicePtr = unsigned long long;
using CuHandle = unsigned long long;  ///< CUmemGenericAllocationHandle
using CuContext = struct CuContextOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuExternalMemory = struct CuExternalMemoryOpaque*;
using CuExternalSemaphore = struct CuExternalSemaphoreOpaque*;

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr int kCuHandlePosixFd = 1;           ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kCuMemoryOpaqueFd = 1;          ///< CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
inline constexpr int kCuSemaphoreTimelineFd = 9;     ///< …_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
inline constexpr unsigned kCuStreamNonBlocking = 1;  ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kCuStreamWaitGeq = 0;      ///< CU_STREAM_WAIT_VALUE_GEQ

// Layouts of cuda.h, whose reserved words keep them as they are.

struct CuUuid {
  unsigned char bytes[16];
};

struct CuExternalMemoryDesc {  ///< CUDA_EXTERNAL_MEMORY_HANDLE_DESC
  int type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
    const void* nv_sci_buf;
  } handle;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};

struct CuExternalBufferDesc {  ///< CUDA_EXTERNAL_MEMORY_BUFFER_DESC
  unsigned long long offset, size;
  unsigned flags;
  unsigned reserved[16];
};

struct CuExternalSemaphoreDesc {  ///< CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
  int type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
    const void* nv_sci_sync;
  } handle;
  unsigned flags;
  unsigned reserved[16];
};

struct CuSemaphoreParams {  ///< CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, …_WAIT_PARAMS
  unsigned long long fence_value;
  unsigned long long nv_sci_sync;
  unsigned long long mutex_key;
  unsigned reserved_params[12];
  unsigned flags;
  unsigned reserved[16];
};

static_assert(sizeof(CuExternalMemoryDesc) == 104 && sizeof(CuExternalBufferDesc) == 88 &&
              sizeof(CuExternalSemaphoreDesc) == 96 && sizeof(CuSemaphoreParams) == 144);

/// Function name, symbol in libcuda, parameters.
#define TV_CUDA_FUNCTIONS(X)                                                                      \
  X(cuInit, cuInit, (unsigned flags))                                                             \
  X(cuDriverGetVersion, cuDriverGetVersion, (int* version))                                       \
  X(cuGetErrorName, cuGetErrorName, (CuResult error, const char** name))                          \
  X(cuDeviceGetCount, cuDeviceGetCount, (int* count))                                             \
  X(cuDeviceGet, cuDeviceGet, (CuDevice * device, int ordinal))                                   \
  X(cuDeviceGetUuid, cuDeviceGetUuid_v2, (CuUuid * uuid, CuDevice device))                        \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CuContext * context, CuDevice device))   \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (CuContext * context))                                      \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CuContext context))                                   \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CuContext * context))                                   \
  X(cuStreamCreate, cuStreamCreate, (CuStream * stream, unsigned flags))                          \
  X(cuStreamDestroy, cuStreamDestroy_v2, (CuStream stream))                                       \
  X(cuStreamQuery, cuStreamQuery, (CuStream stream))                                              \
  X(cuStreamSynchronize, cuStreamSynchronize, (CuStream stream))                                  \
  X(cuStreamIsCapturing, cuStreamIsCapturing, (CuStream stream, int* status))                     \
  X(cuStreamWaitValue32, cuStreamWaitValue32_v2,                                                  \
    (CuStream stream, CuDevicePtr address, uint32_t value, unsigned flags))                       \
  X(cuMemAlloc, cuMemAlloc_v2, (CuDevicePtr * address, size_t bytes))                             \
  X(cuMemFree, cuMemFree_v2, (CuDevicePtr address))                                               \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                                      \
    (CuDevicePtr dst, CuDevicePtr src, size_t bytes, CuStream stream))                            \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void* dst, CuDevicePtr src, size_t bytes))                    \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                                      \
    (void* dst, CuDevicePtr src, size_t bytes, CuStream stream))                                  \
  X(cuMemsetD32Async, cuMemsetD32Async,                                                           \
    (CuDevicePtr address, unsigned value, size_t count, CuStream stream))                         \
  X(cuPointerGetAttribute, cuPointerGetAttribute, (void* value, int attribute, CuDevicePtr p))    \
  X(cuMemGetAddressRange, cuMemGetAddressRange_v2,                                                \
    (CuDevicePtr * base, size_t* bytes, CuDevicePtr address))                                     \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, (CuHandle * handle, void* address)) \
  X(cuMemRelease, cuMemRelease, (CuHandle handle))                                                \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                   \
    (void* shareable, CuHandle handle, int type, unsigned long long flags))                       \
  X(cuImportExternalMemory, cuImportExternalMemory,                                               \
    (CuExternalMemory * memory, const CuExternalMemoryDesc* desc))                                \
  X(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer,                             \
    (CuDevicePtr * address, CuExternalMemory memory, const CuExternalBufferDesc* desc))           \
  X(cuDestroyExternalMemory, cuDestroyExternalMemory, (CuExternalMemory memory))                  \
  X(cuImportExternalSemaphore, cuImportExternalSemaphore,                                         \
    (CuExternalSemaphore * semaphore, const CuExternalSemaphoreDesc* desc))                       \
  X(cuDestroyExternalSemaphore, cuDestroyExternalSemaphore, (CuExternalSemaphore semaphore))      \
  X(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync,                             \
    (const CuExternalSemaphore* semaphores, const CuSemaphoreParams* params, unsigned count,      \
     CuStream stream))                                                                            \
  X(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync,                                 \
    (const CuExternalSemaphore* semaphores, const CuSemaphoreParams* params, unsigned count,      \
     CuStream stream))

/// The functions; tests put their own in place.
struct CudaApi {
#define TV_CUDA_MEMBER(name, symbol, parameters) CuResult(*name) parameters = nullptr;
  TV_CUDA_FUNCTIONS(TV_CUDA_MEMBER)
#undef TV_CUDA_MEMBER
};

/// The driver's functions, initialised; null if there is none, and `reason` says why.
/// Thread-safe. The library is opened once and never closed.
const CudaApi* cuda_api(std::string* reason = nullptr);

/// "CUDA_ERROR_NOT_READY (600)".
std::string cuda_result_name(const CudaApi& api, CuResult result);

/// 32 hexadecimal digits, as DeviceProfile::uuid.
std::string uuid_text(const CuUuid& uuid);

/// Makes a context current for the calling thread where another one is, and puts that back.
class CudaScope {
 public:
  CudaScope(const CudaApi& api, CuContext context);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;

 private:
  const CudaApi& api_;
  bool pushed_ = false;
};

}  // namespace tv
