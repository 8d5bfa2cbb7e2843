// Kernels of user operators as functions of C++. This header includes nothing of PyTorch.
//
// A kernel is a function that computes the outputs of one call from its inputs, on the host's memory. It is registered
// for a guid, the name that an operator gives its kernel:
//
//   void scale(const openhpu::KernelCall& call) {
//     const auto* x = call.input<float>(0);
//     auto* y = call.output<float>(0);
//     for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = 2 * x[i];
//   }
//   OPENHPU_CUSTOM_KERNEL("scale_fwd_f32", scale);
//
// Link the library that registers kernels with `habana_pytorch_plugin` or `habana_pytorch2_plugin` of get_lib_dir().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#define OPENHPU_EXPORT __attribute__((visibility("default")))

namespace openhpu {

// The numbers are those of c10::ScalarType.
enum class DType : int32_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Float16 = 5,
  Float32 = 6,
  Float64 = 7,
  Complex64 = 9,
  Complex128 = 10,
  Bool = 11,
  BFloat16 = 15,
  Float8E5M2 = 23,
  Float8E4M3 = 24,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
};

// A tensor of a call. It is contiguous: the last dimension is the fastest one.
struct Operand {
  void* data;              // null for an optional tensor that was not given, and for a tensor without elements
  const int64_t* sizes;    // `dim` of them
  const int64_t* strides;  // in elements
  int32_t dim;
  DType dtype;

  int64_t numel() const {
    int64_t n = 1;
    for (int32_t d = 0; d < dim; ++d) n *= sizes[d];
    return n;
  }
};

// One call of a kernel. What it points to is valid until the kernel returns.
struct KernelCall {
  const char* op;    // the schema's name: "custom_op::scale"
  const char* guid;  // "scale_fwd_f32"
  const Operand* inputs;
  size_t input_count;
  // Memory of the sizes and dtypes that the operator's callback gave. The contents are undefined. An output that the
  // schema says is an operand (`Tensor(a!)`) has the contents of this operand.
  const Operand* outputs;
  size_t output_count;
  const void* params;  // what the operator's callback filled; null without one
  size_t params_size;  // bytes
  int32_t device;      // index of the hpu device

  // The elements of an operand. Throws std::invalid_argument if there is no such operand, or if it has another dtype.
  template <class T>
  const T* input(size_t i) const {
    return static_cast<const T*>(checked<T>(inputs, input_count, i, "input"));
  }
  template <class T>
  T* output(size_t i) const {
    return static_cast<T*>(checked<T>(outputs, output_count, i, "output"));
  }
  // The params, as the struct that the callback filled. Throws std::invalid_argument if that had another size.
  template <class Params>
  const Params& params_as() const {
    if (!params || params_size != sizeof(Params))
      throw std::invalid_argument(
          std::string(op) + ": the kernel " + guid + " expects params of " + std::to_string(sizeof(Params)) +
          " bytes, but the operator gives " + std::to_string(params_size) + " bytes");
    return *static_cast<const Params*>(params);
  }

 private:
  template <class T>
  static constexpr bool fits(DType dtype) {
    if constexpr (std::is_same<T, float>::value) return dtype == DType::Float32;
    if constexpr (std::is_same<T, double>::value) return dtype == DType::Float64;
    if constexpr (std::is_same<T, bool>::value) return dtype == DType::Bool;
    if constexpr (std::is_same<T, int8_t>::value) return dtype == DType::Int8;
    if constexpr (std::is_same<T, uint8_t>::value) return dtype == DType::UInt8 || dtype == DType::Bool;
    if constexpr (std::is_same<T, int16_t>::value) return dtype == DType::Int16;
    if constexpr (std::is_same<T, int32_t>::value) return dtype == DType::Int32;
    if constexpr (std::is_same<T, uint32_t>::value) return dtype == DType::UInt32;
    if constexpr (std::is_same<T, int64_t>::value) return dtype == DType::Int64;
    if constexpr (std::is_same<T, uint64_t>::value) return dtype == DType::UInt64;
    return size_of(dtype) == sizeof(T);  // c10::BFloat16, a struct of the user's
  }
  template <class T>
  void* checked(const Operand* operands, size_t count, size_t i, const char* kind) const {
    const std::string where = std::string(op) + ": the kernel " + guid + " asks for " + kind + " " + std::to_string(i);
    if (i >= count) throw std::invalid_argument(where + " of " + std::to_string(count));
    if (!fits<T>(operands[i].dtype))
      throw std::invalid_argument(
          where + " as elements of " + std::to_string(sizeof(T)) + " bytes, but its dtype is c10::ScalarType " +
          std::to_string(static_cast<int>(operands[i].dtype)));
    return operands[i].data;
  }

 public:
  // Bytes of an element.
  static constexpr size_t size_of(DType dtype) {
    switch (dtype) {
      case DType::Int16:
      case DType::UInt16:
      case DType::Float16:
      case DType::BFloat16:
        return 2;
      case DType::Int32:
      case DType::UInt32:
      case DType::Float32:
        return 4;
      case DType::Int64:
      case DType::UInt64:
      case DType::Float64:
      case DType::Complex64:
        return 8;
      case DType::Complex128:
        return 16;
      default:
        return 1;
    }
  }
};

// It runs on a worker of a device, or on a thread that waits for it; of several devices also at the same time. What it
// throws becomes the error of the call.
using CustomKernel = void (*)(const KernelCall& call);

// Throws std::invalid_argument for a guid that has a kernel already. A function of an initialiser calls
// OPENHPU_CUSTOM_KERNEL instead, since an exception would end the process there.
OPENHPU_EXPORT void register_custom_kernel(const char* guid, CustomKernel kernel);

struct CustomKernelRegistration {
  // An error is kept, and operators that want the guid raise it.
  OPENHPU_EXPORT CustomKernelRegistration(const char* guid, CustomKernel kernel) noexcept;
};

#define OPENHPU_JOINED_(a, b) a##b
#define OPENHPU_JOINED(a, b) OPENHPU_JOINED_(a, b)
#define OPENHPU_CUSTOM_KERNEL(guid, kernel) \
  static const ::openhpu::CustomKernelRegistration OPENHPU_JOINED(openhpu_kernel_, __COUNTER__) { guid, kernel }

}  // namespace openhpu
