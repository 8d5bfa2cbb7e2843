// Copies between host and device, within a device, and reads of single values.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_local_scalar_dense.h>

#include "call/Alias.h"
#include "call/OpKernel.h"
#include "call/SmallCall.h"
#include "kernels/Ranges.h"
#include "observe/events.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "run/Eager.h"
#include "run/Tensors.h"
#include "torch/CompileOnly.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

using device::TraceKind;

// A pageable source up to this size is copied aside, so that the host need not wait for the queue; beyond it the
// second copy costs more than the wait.
constexpr size_t kStagingBytes = size_t{1} << 20;

class CopyCommand final : public device::Command {
 public:
  CopyCommand(device::Device& device, device::TraceKind kind, at::Tensor dst, at::Tensor src)
      : device_(device), kind_(kind), dst_(std::move(dst)), src_(std::move(src)) {
    site = current_site();
  }
  const char* name() const override { return "aten::copy_"; }
  void describe(device::TraceRecord& record) const override {
    record.kind = kind_;
    record.bytes = dst_.nbytes();
  }
  bool runs_anywhere() const noexcept override { return threads_for(dst_.nbytes()) == 1; }
  void run() override {
    if (claim_ && !claim_->take()) {
      // Taken back: these may now be the last references.
      return_to_host(dst_.storage());
      return_to_host(src_.storage());
      return;
    }
    apply_kernel_threads(dst_.nbytes());
    device::MemoryPool::AccessScope access(device_.memory());
    KernelScope scope(device_.workspace(), nullptr, 0, false);
    exact_copy(dst_, src_);
    if (C10_UNLIKELY(narrow_int64()) && kind_ == TraceKind::HostToDevice)
      note_overflows("copy_", static_cast<uint32_t>(site), wrap_to_int32(dst_));
  }
  void retire() override {
    if (host_) return_to_host(std::move(host_));
    delete this;
  }
  void keep(c10::Storage host) { host_ = std::move(host); }
  // For a copy that is waited for, of memory that is the script's.
  const Claim& claim() { return claim_ ? *claim_ : claim_.emplace(); }

 private:
  device::Device& device_;
  device::TraceKind kind_;
  at::Tensor dst_, src_;
  c10::Storage host_;
  std::optional<Claim> claim_;
};

// A CPU tensor as kernels on the worker see it: the same storage, no autograd, no Python object.
at::Tensor plain(const at::Tensor& cpu) {
  return alias_over(
      *cpu.unsafeGetTensorImpl(),
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(cpu.storage().unsafeGetStorageImpl()));
}

at::Tensor exact_clone(const at::Tensor& t, std::optional<at::MemoryFormat> format = std::nullopt) {
  return as_bytes(t).clone(format).view(t.scalar_type());
}

void note_copy(const char* kind, Counter n, std::optional<Counter> bytes, const at::Tensor& t) {
  count(n);
  if (bytes) count(*bytes, t.nbytes());
  if (C10_UNLIKELY(listening(kCopy)))
    emit(kCopy, {{"kind", std::string(kind)}, {"bytes", static_cast<int64_t>(t.nbytes())}}, current_site());
}

// Waits for what the host is about to read, and tells of it.
template <class Wait>
void blocking_read(device::Device& d, const char* op, size_t bytes, Wait&& wait) {
  count(Counter::BlockingReads);
  const bool told = listening(kBlockingRead);
  const uint64_t since = C10_UNLIKELY(told) ? now_ns() : 0;
  wait();
  note_read(d);
  if (C10_UNLIKELY(told))
    emit(
        kBlockingRead,
        {{"op", std::string(op)},
         {"bytes", static_cast<int64_t>(bytes)},
         {"wait_ns", static_cast<int64_t>(now_ns() - since)}},
        current_site());
}

// Whether both are views of the same numbers. Such a copy does nothing, also where the view overlaps itself.
bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) && a.scalar_type() == b.scalar_type() && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// The memory of a tensor gets contents from elsewhere.
void note_copied(const at::Tensor& dst) {
  const auto& storage = *dst.storage().unsafeGetStorageImpl();
  note_write(storage);
  if (auto* memory = memory_of(storage); memory && C10_UNLIKELY(memory->born != 0)) note_contents(*memory);
}

void note_host_read(const at::Tensor& src, const char* op) {
  if (C10_LIKELY(compile_only() == 0)) return;
  if (const auto* memory = memory_of(*src.storage().unsafeGetStorageImpl())) note_undefined_read(*memory, op);
}

void device_to_device(const at::Tensor& src, const at::Tensor& dst) {
  at::assert_no_partial_overlap(dst, src);
  note_copy("d2d", Counter::CopiesD2D, std::nullopt, dst);
  auto& to = device_of(dst.device());
  auto& from = device_of(src.device());
  if (&from != &to) {
    if (current_capture(dst.device().index()) || current_capture(src.device().index()))
      refuse_in_capture("aten::copy_ between devices", kOtherDeviceRemedy);
    note_copied(dst);
    // Two queues: the source's must have written, and must not reuse the memory before the copy is done.
    flush(from);
    from.queue().drain(device::OnInterrupt::Throw);
    raise_pending_error(from);
    auto* command = new CopyCommand(to, TraceKind::DeviceToDevice, cpu_alias(dst), cpu_alias(src));
    const Claim claim = command->claim();
    device::MemoryPool::AccessScope access(from.memory());
    wait_or_take_back(to.queue(), submit(to, command), claim);
    raise_pending_error(to);
    return;
  }
  // Within a device a copy is an operator like any other.
  static auto* kernel = new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  const bool bytes = dst.scalar_type() == src.scalar_type();
  c10::Stack stack{bytes ? as_bytes(dst) : dst, bytes ? as_bytes(src) : src, false};
  kernel->call(stack);
}

void host_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  check_copied_range(src, dst.scalar_type());
  note_copy("h2d", Counter::CopiesH2D, Counter::BytesH2D, src);
  auto& d = device_of(dst.device());
  note_copied(dst);
  release_returned();
  if (C10_UNLIKELY(current_capture(dst.device().index()) != nullptr)) {
    // The graph keeps what was copied: each replay copies it again.
    c10::InferenceMode no_autograd(true);
    const auto from = exact_clone(plain(src).resolve_conj().resolve_neg(), at::MemoryFormat::Contiguous);
    auto kept = make_hpu_tensor(
        storage_over(allocate_on(dst.device().index(), from.nbytes()), from.nbytes()), from.dtype(), from.sizes(),
        from.strides(), 0);
    submit(d, new CopyCommand(d, TraceKind::HostToDevice, cpu_alias(kept), from));
    device_to_device(kept, dst);
    return;
  }
  const bool pinned = non_blocking && src.has_storage() && is_pinned_ptr(src.storage().data());
  const bool staged = !pinned && src.nbytes() <= kStagingBytes;
  at::Tensor from = src;
  if (staged) {
    c10::InferenceMode no_autograd(true);
    from = exact_clone(plain(src));
    // Copy-on-write and lazily conjugated sources keep their bits through clone.
  }
  auto command = std::make_unique<CopyCommand>(d, TraceKind::HostToDevice, cpu_alias(dst), plain(from));
  if (pinned) command->keep(src.storage());
  std::optional<Claim> claim;
  if (!pinned && !staged) claim = command->claim();
  const uint64_t sequence = submit(d, command.release(), device::OnInterrupt::Throw);
  if (claim) wait_or_take_back(d.queue(), sequence, *claim);
}

void device_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  if (C10_UNLIKELY(current_capture(src.device().index()) != nullptr))
    refuse_in_capture("aten::copy_ to the host", kHostReadRemedy);
  note_copy("d2h", Counter::CopiesD2H, Counter::BytesD2H, src);
  note_host_read(src, "aten::_to_copy");
  auto& d = device_of(src.device());
  release_returned();
  const bool pinned = non_blocking && dst.has_storage() && is_pinned_ptr(dst.storage().data());
  auto command = std::make_unique<CopyCommand>(d, TraceKind::DeviceToHost, plain(dst), cpu_alias(src));
  if (pinned) command->keep(dst.storage());
  std::optional<Claim> claim;
  if (!pinned) claim = command->claim();
  const uint64_t sequence = submit(d, command.release(), device::OnInterrupt::Throw);
  if (pinned) return;
  blocking_read(d, "aten::_to_copy", src.nbytes(), [&] { wait_or_take_back(d.queue(), sequence, *claim); });
  raise_pending_error(d);
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(src.defined(), "src is undefined");
  TORCH_CHECK(dst.defined(), "dst is undefined");
  TORCH_CHECK(
      at::is_expandable_to(src.sizes(), dst.sizes()), "output with shape ", dst.sizes(),
      " doesn't match the broadcast shape of the source ", src.sizes(), " (aten::copy_)");
  if (dst.numel() == 0 || same_numbers(dst, src)) return dst;
  at::assert_no_internal_overlap(dst);
  if (src._is_zerotensor()) return dst.zero_();
  const bool from_hpu = src.device().type() == c10::kHPU, to_hpu = dst.device().type() == c10::kHPU;
  TORCH_CHECK(
      (from_hpu || src.is_cpu()) && (to_hpu || dst.is_cpu()), "aten::copy_ between ", src.device(), " and ",
      dst.device(), " is not supported; copy by way of the CPU.");
  if (from_hpu && to_hpu)
    device_to_device(src, dst);
  else if (to_hpu)
    host_to_device(src, dst, non_blocking);
  else
    device_to_host(src, dst, non_blocking);
  return dst;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  // A tensor of another layout knows how to make itself dense.
  if (src.layout() != c10::kStrided) return self.copy_(src.to_dense(), non_blocking);
  copy_from(src, self, non_blocking);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& src, const at::Tensor& dst) {
  if (dst.sizes() != src.sizes()) dst.resize_(src.sizes());
  return copy_from(src, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  if (C10_UNLIKELY(current_capture(self.device().index()) != nullptr)) refuse_in_capture("aten::item", kHostReadRemedy);
  auto& d = device_of(self.device());
  const auto& storage = *self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  note_host_read(self, "aten::item");
  at::Tensor value;
  blocking_read(d, "aten::item", self.element_size(), [&] {
    flush(d);
    value = compute_small(d, self);
    if (!value.defined()) d.queue().wait_to_read(made_by(d, storage), device::OnInterrupt::Throw);
  });
  raise_pending_error(d);
  if (value.defined()) return at::_local_scalar_dense(value);
  device::MemoryPool::AccessScope access(d.memory());
  return at::_local_scalar_dense(cpu_alias_to_read(self));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// The copy itself resolves conjugation and negation, as copy_ does; resolving them by a clone first would copy again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace openhpu
