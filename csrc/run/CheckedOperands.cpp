#include "run/CheckedOperands.h"

#include "run/KernelFaults.h"

namespace openhpu {
namespace {

constexpr size_t kCanary = 4096;   // bytes on each side; a multiple of kAlignment
constexpr size_t kAlignment = 64;  // of tensors' memory
constexpr unsigned char kPattern = 0xa5;

struct Copy {
  std::unique_ptr<unsigned char, void (*)(void*)> bytes;
  const void* original;
  size_t nbytes;
  std::string name;

  unsigned char* data() { return bytes.get() + kCanary; }
};

// The farthest byte beside the operand that was written: its distance before the begin (negative) or behind the end.
std::optional<int64_t> written_beside(const Copy& copy) {
  const auto* begin = copy.bytes.get();
  for (size_t i = 0; i < kCanary; ++i)
    if (begin[i] != kPattern) return static_cast<int64_t>(i) - static_cast<int64_t>(kCanary);
  for (size_t i = kCanary; i-- > 0;)
    if (begin[kCanary + copy.nbytes + i] != kPattern) return static_cast<int64_t>(i) + 1;
  return std::nullopt;
}

Copy copy_of(const Operand& operand, std::string name) {
  const size_t nbytes = operand.data ? static_cast<size_t>(operand.numel()) * KernelCall::size_of(operand.dtype) : 0;
  const size_t whole = (nbytes + 2 * kCanary + kAlignment - 1) / kAlignment * kAlignment;
  Copy copy{
      {static_cast<unsigned char*>(std::aligned_alloc(kAlignment, whole)), &std::free},
      operand.data,
      nbytes,
      std::move(name)};
  if (!copy.bytes) throw std::bad_alloc();
  std::memset(copy.bytes.get(), kPattern, whole);
  if (nbytes) std::memcpy(copy.data(), operand.data, nbytes);
  return copy;
}

}  // namespace

void run_checked(const UserKernel& kernel, const KernelCall& call) {
  std::vector<Copy> copies;
  std::vector<Operand> operands;
  const auto add = [&](const Operand& operand, const char* kind, size_t i) {
    auto& copy = copies.emplace_back(copy_of(operand, std::string(kind) + " " + std::to_string(i)));
    operands.push_back(operand);
    operands.back().data = operand.data ? copy.data() : nullptr;
  };
  for (size_t i = 0; i < call.input_count; ++i) add(call.inputs[i], "input", i);
  for (size_t i = 0; i < call.output_count; ++i) add(call.outputs[i], "output", i);
  KernelCall checked = call;
  checked.inputs = operands.data();
  checked.outputs = operands.data() + call.input_count;
  {
    const FaultScope scope(checked);
    kernel(checked);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    auto& copy = copies[i];
    if (const auto at = written_beside(copy))
      throw std::runtime_error(
          "it wrote up to " + std::to_string(std::abs(*at)) + " bytes " + (*at < 0 ? "before" : "behind") +
          " the memory of " + copy.name + " (OPENHPU_CHECK_KERNELS)");
    if (i >= call.input_count) {
      if (copy.nbytes) std::memcpy(const_cast<void*>(copy.original), copy.data(), copy.nbytes);
    } else if (copy.nbytes && std::memcmp(copy.original, copy.data(), copy.nbytes) != 0) {
      throw std::runtime_error("it wrote into " + copy.name + ", which an operator only reads (OPENHPU_CHECK_KERNELS)");
    }
  }
}

}  // namespace openhpu
