// Lazy mode's way to run a call: append it to the device's graph. And what a graph capture must know of a call that the
// recorder does not see, since it was run to learn its metadata.
#include "call/OpCall.h"
#include "call/SmallCall.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {

HPUMemory* memory_behind(const at::Tensor& t) {
  return memory_of(*t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

// A parameter, or a view of one.
bool is_weight(const at::Tensor& t) {
  const auto& base = t.is_view() ? t._base() : t;
  return base.requires_grad() && base.is_leaf();
}

}  // namespace

void OpCall::prepare_operands(Capture& capture) {
  const bool inference = !at::GradMode::is_enabled();
  for (const auto& o : operands_) {
    if (o.tensor->device().type() != c10::kHPU) continue;
    auto* memory = memory_behind(*o.tensor);
    if (!memory) continue;
    if (memory->pending() && !capture.has_met(*memory))
      require_memory(*o.tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    if (inference && is_weight(*o.tensor)) {
      Recorder::Lock lock(Recorder::of(capture.device()));
      capture.note_weight(*memory);
    }
  }
}

void OpCall::prepare_to_learn(Capture& capture) {
  prepare_operands(capture);
  if (!capture.dry_run()) return;
  auto& recorder = Recorder::of(capture.device());
  Recorder::Lock lock(recorder);
  recorder.flush_locked();
  back_up_written(capture);
}

void OpCall::back_up_written(Capture& capture) {
  if (!capture.dry_run()) return;
  for (const auto& o : operands_)
    if (o.written && o.tensor->device().type() == c10::kHPU)
      if (auto* memory = memory_behind(*o.tensor)) capture.back_up(capture.slot_of(*memory));
}

void OpCall::record_learned(const std::shared_ptr<const ShapeEntry>& entry, const c10::Stack& results) {
  auto* capture = current_capture(device_.index());
  if (!capture) return;
  if (!entry || !entry->call->recordable) refuse_in_capture(kernel_.name(), kUnknownCallRemedy);
  for (const auto& o : operands_)
    if (o.tensor->device().type() == c10::kHPU && !memory_behind(*o.tensor))
      refuse_in_capture(kernel_.name(), kUnknownCallRemedy);

  auto& recorder = Recorder::of(capture->device());
  Recorder::Lock lock(recorder);
  recorder.flush_locked();
  for (const auto& r : entry->resizes) capture->made_here(*memory_behind(*operands_[r.operand].tensor));
  // A piece of one node, whose slots are the capture's already.
  Graph piece;
  std::vector<std::pair<uint32_t, uint32_t>> seeds;
  piece.nodes.push_back({entry, current_site(), 0, 0});
  piece.words.push_back(entry->call->id);
  append_numbers(*entry->call, args_, piece.numbers);
  if (kernel_.traits().seeded) seeds.emplace_back(entry->call->args[1].first, Capture::last_draw());
  for (const auto& o : operands_) {
    const auto* impl = o.tensor->unsafeGetTensorImpl();
    if (impl->device().type() != c10::kHPU) continue;
    piece.words.push_back(
        Graph::place(capture->slot_of(*memory_behind(*o.tensor)), static_cast<uint64_t>(impl->storage_offset())));
  }
  const size_t fresh = piece.words.size();
  piece.words.resize(fresh + entry->storages.size());
  entry->for_each_fresh(results, [&](const OutputSpec& spec, const at::Tensor& t) {
    auto& memory = *memory_behind(t);
    if (!capture->has_met(memory)) capture->made_here(memory);
    piece.words[fresh + spec.index] = capture->slot_of(memory);
  });
  capture->take(piece, std::identity(), seeds);
}

bool OpCall::record(const std::shared_ptr<const ShapeEntry>& entry) {
  const CallTemplate* call = entry->call.get();
  if (!call || !call->recordable) return false;
  auto& device = device_of(device_);
  auto& recorder = Recorder::of(device);
  for (const auto& o : operands_) {
    const auto* impl = o.tensor->unsafeGetTensorImpl();
    if (impl->device().type() != c10::kHPU) continue;
    if (!memory_of(*impl->unsafe_storage().unsafeGetStorageImpl()) ||
        static_cast<uint64_t>(impl->storage_offset()) >> Graph::kOffsetBits)
      return false;
  }
  auto* capture = current_capture(device_.index());
  if (C10_UNLIKELY(capture != nullptr)) prepare_operands(*capture);
  const uint32_t site = current_site();
  c10::SmallVector<c10::Storage, 4> storages;
  const bool small = !capture && is_small_call(*entry);
  {
    Recorder::Lock lock(recorder);
    recorder.make_way();
    if (C10_UNLIKELY(capture != nullptr)) back_up_written(*capture);
    for (const auto& r : entry->resizes) {
      auto* impl = operands_[r.operand].tensor->unsafeGetTensorImpl();
      make_pending(*impl->unsafe_storage().unsafeGetStorageImpl(), device_.index(), r.nbytes);
      impl->set_sizes_and_strides(r.sizes, r.strides, 0);
      if (C10_UNLIKELY(capture != nullptr))
        capture->made_here(*memory_of(*impl->unsafe_storage().unsafeGetStorageImpl()));
    }
    recorder.begin_node(entry, site);
    if (C10_UNLIKELY(capture != nullptr) && kernel_.traits().seeded) recorder.note_seed(call->args[1].first);
    if (call->numbers) append_numbers(*call, args_, recorder.numbers());
    for (const auto& o : operands_) {
      const auto* impl = o.tensor->unsafeGetTensorImpl();
      if (C10_UNLIKELY(impl->device().type() != c10::kHPU)) continue;
      auto& memory = *memory_of(*impl->unsafe_storage().unsafeGetStorageImpl());
      const uint32_t slot = o.written ? recorder.slot_to_write(memory) : recorder.slot_of(memory);
      recorder.add_word(Graph::place(slot, static_cast<uint64_t>(impl->storage_offset())));
    }
    for (const auto& s : entry->storages) {
      uint32_t slot = 0;
      storages.push_back(recorder.fresh(device_.index(), s.nbytes, slot));
      recorder.add_word(slot);
    }
    if (C10_UNLIKELY(small)) memory_of(*storages[0].unsafeGetStorageImpl())->small_call = small_call(entry);
    recorder.end_node();
  }
  count(Counter::OpsRecorded);
  leave_results(*entry, storages);
  recorder.settle();
  return true;
}

}  // namespace openhpu
