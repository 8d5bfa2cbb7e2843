// Lazy mode's way to run a call: append it to the device's graph.
#include "call/Alias.h"
#include "call/OpCall.h"
#include "call/SmallCall.h"
#include "observe/events.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {

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
