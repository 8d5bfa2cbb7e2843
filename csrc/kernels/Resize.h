#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace openhpu {

// Changes the size of an hpu storage; the contents that fit are kept, copied in queue order.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);
// Makes a tensor's storage at least `nbytes` large.
void grow_storage(const at::Tensor& self, size_t nbytes);

}  // namespace openhpu
