#pragma once

#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "device/command_queue.h"

namespace openhpu::device::testing {

// Holds a queue's worker inside a command until it is opened, so that a test decides what has run and what has not.
class Gate {
 public:
  explicit Gate(CommandQueue& queue)
      : sequence_(queue.submit("gate", [state = state_] {
          state->entered.count_down();
          state->open.wait();
        })) {}
  ~Gate() { open(); }

  uint64_t sequence() const { return sequence_; }
  void wait_entered() { state_->entered.wait(); }
  void open() {
    if (!opened_) state_->open.count_down();
    opened_ = true;
  }

 private:
  struct State {
    std::latch entered{1};
    std::latch open{1};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  uint64_t sequence_;
  bool opened_ = false;
};

// Runs a function of a number in so many threads, which begin together.
template <class Body>
void in_threads(int count, Body body) {
  std::latch start(count);
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      start.arrive_and_wait();
      body(number);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace openhpu::device::testing
