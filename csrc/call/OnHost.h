#pragma once

#include <c10/util/flat_hash_map.h>

#include <vector>

#include "call/OpCall-inl.h"

namespace openhpu {

// A call of the operator's CPU kernel on aliases of the operands.
struct OpCall::OnHost {
  struct Alias {
    const at::Tensor* hpu;
    at::Tensor cpu;
    const void* data;  // of its storage, before the call
    size_t nbytes;
  };
  c10::Stack stack;
  // One CPU storage per hpu storage, so that kernels see who overlaps whom.
  ska::flat_hash_map<const c10::StorageImpl*, c10::intrusive_ptr<c10::StorageImpl>> storages;
  ska::flat_hash_map<const c10::StorageImpl*, c10::Storage> origin;  // CPU storage -> hpu storage
  std::vector<Alias> aliases;
  Widening widening;  // in which dtypes it ran
  c10::SmallVector<int64_t, 4> ordinals;  // by output: which of the kernel's allocations it is
};

template <class StorageOver>
void OpCall::alias_on_host(OnHost& call, StorageOver&& storage_over, AliasOver alias_over) {
  alias_arguments(call.stack, [&](const at::Tensor& t) {
    const auto& hpu_storage = t.storage();
    auto& storage = call.storages[hpu_storage.unsafeGetStorageImpl()];
    if (!storage) {
      storage = storage_over(*hpu_storage.unsafeGetStorageImpl());
      call.origin[storage.get()] = hpu_storage;
    }
    auto alias = alias_over(*t.unsafeGetTensorImpl(), storage);
    call.aliases.push_back({&t, alias, storage->data(), storage->nbytes()});
    return alias;
  });
}

}  // namespace openhpu
