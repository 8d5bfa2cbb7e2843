#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace openhpu {

// A store whose waits Ctrl-C ends: those of PyTorch's stores hear no signal. Set-up waits for the other ranks in here,
// and a rank that has ended never comes.
class InterruptibleStore final : public c10d::PrefixStore {
 public:
  explicit InterruptibleStore(c10::intrusive_ptr<Store> store) : PrefixStore("hccl", std::move(store)) {}

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<InterruptibleStore>(store_->clone()); }
  std::vector<uint8_t> get(const std::string& key) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override { await(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    await(keys, timeout);
  }

 private:
  void await(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);
};

}  // namespace openhpu
