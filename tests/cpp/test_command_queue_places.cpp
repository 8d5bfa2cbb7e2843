// Where commands run: on the worker, on the thread that submits them, or on one that waits.
#include "device/command_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "Above.h"
#include "gates.h"
#include "signal_calls.h"

namespace openhpu::device {
namespace {

using testing::Gate;
using testing::SignalCalls;

// What a command does that notes on which thread it runs.
auto note(std::vector<std::thread::id>& ran) {
  return [&ran] { ran.push_back(std::this_thread::get_id()); };
}

TEST(CommandQueue, WhatMayNotRunAnywhereRunsOnTheWorkerInOrder) {
  CommandQueue queue("test");
  queue.set_workerless(true);
  std::vector<std::thread::id> ran;
  for (bool anywhere : {true, false, true, true, false, true}) queue.submit("c", note(ran), 0, anywhere);
  queue.drain();
  const auto here = std::this_thread::get_id();
  ASSERT_EQ(ran.size(), 6u);
  EXPECT_EQ(ran[0], here);
  EXPECT_NE(ran[1], here);
  EXPECT_NE(ran[4], here);
  EXPECT_EQ(ran[1], ran[4]);
}

// Two ranks in one process: each waits for the other before it sends. Run by the thread that submits they would
// deadlock.
TEST(CommandQueue, CommandsThatWaitForEachOtherNeverRunOnTheHost) {
  CommandQueue first("0"), second("1");
  for (auto* queue : {&first, &second}) queue->set_workerless(true);
  std::latch both(2);
  std::vector<std::thread::id> ran;
  for (auto* queue : {&first, &second}) queue->submit("receives before it sends", [&] { both.arrive_and_wait(); });
  for (auto* queue : {&first, &second}) {
    queue->submit("c", note(ran), 0, true);
    queue->drain();
  }
  EXPECT_EQ(ran.size(), 2u);
}

// Waits for something that another thread brings.
class Beside : public Command {
 public:
  Beside(std::atomic<bool>& there, std::vector<std::thread::id>& ran) : there_(there), ran_(ran) {
    waits_beside = true;
  }
  void run() override {
    EXPECT_TRUE(there_.load());
    ran_.push_back(std::this_thread::get_id());
  }
  bool runs_anywhere() const noexcept override { return there_.load(); }
  bool ready() noexcept override { return there_.load(); }

 private:
  std::atomic<bool>& there_;
  std::vector<std::thread::id>& ran_;
};

TEST(CommandQueue, WhoBringsWhatACommandWaitsForRunsIt) {
  CommandQueue queue("test");
  std::atomic<bool> there = false;
  std::vector<std::thread::id> ran;
  queue.submit("before", note(ran));
  queue.drain();
  queue.submit(new Beside(there, ran));
  const uint64_t last = queue.submit("after", note(ran));
  queue.resume();  // nothing has come
  EXPECT_EQ(queue.completed(), 1u);
  std::thread::id bringer;
  std::thread other([&] {
    bringer = std::this_thread::get_id();
    // Held up only after the worker looked at it.
    while (queue.submitted() != 3) std::this_thread::yield();
    there = true;
    queue.resume();
  });
  queue.wait(last);
  other.join();
  ASSERT_EQ(ran.size(), 3u);
  EXPECT_EQ(ran[0], ran[2]);  // the worker
  EXPECT_NE(ran[2], bringer);
}

TEST(CommandQueue, AWaitForAHeldUpQueueHearsInterrupts) {
  CommandQueue queue("test");
  std::atomic<bool> there = false;
  std::vector<std::thread::id> ran;
  queue.submit(new Beside(there, ran));
  {
    SignalCalls signals;
    SignalCalls::pending = true;
    EXPECT_FALSE(queue.drain(OnInterrupt::Return));
  }
  EXPECT_TRUE(ran.empty());
  there = true;
  queue.resume();
  EXPECT_TRUE(queue.drain());
  EXPECT_EQ(ran.size(), 1u);
}

TEST(CommandQueue, ManyHoldUpsLoseNoCommand) {
  for (const bool workerless : {false, true}) {
    CommandQueue queue("test", 64);
    queue.set_workerless(workerless);
    constexpr size_t kTimes = 3000;
    std::vector<std::atomic<bool>> there(kTimes);
    std::vector<std::thread::id> ran;
    std::atomic<size_t> submitted = 0;
    std::thread bringer([&] {
      for (size_t i = 0; i < kTimes; ++i) {
        while (submitted.load() <= i) std::this_thread::yield();
        there[i] = true;
        queue.resume();
      }
    });
    size_t others = 0;
    for (size_t i = 0; i < kTimes; ++i) {
      queue.submit(new Beside(there[i], ran));
      submitted = i + 1;
      if (i % 3 == 0) queue.submit("other", [&] { ++others; });
      if (i % 5 == 0) queue.drain();
    }
    queue.drain();
    bringer.join();
    EXPECT_EQ(ran.size(), kTimes);
    EXPECT_EQ(others, kTimes / 3);
  }
}

TEST(CommandQueue, WhatIsToRunAtOnceRunsWhereItIsSubmittedIfNothingIsBeforeIt) {
  CommandQueue queue("test");
  static std::atomic<std::thread::id> ran{};
  struct AtOnce : Command {
    AtOnce() { at_once = true; }
    void run() override { ran = std::this_thread::get_id(); }
    bool runs_anywhere() const noexcept override { return true; }
  };
  // A worker that is awake may be faster. Nobody waits between the submission and the look.
  bool here = false;
  for (int i = 0; i < 10000 && !here; ++i) {
    ran = std::thread::id();
    queue.submit(new AtOnce);
    here = ran.load() == std::this_thread::get_id();
    queue.drain();
  }
  EXPECT_TRUE(here);
  Gate gate(queue);
  gate.wait_entered();
  ran = std::thread::id();
  queue.submit(new AtOnce);
  EXPECT_EQ(ran.load(), std::thread::id());
  gate.open();
  queue.drain();
  EXPECT_NE(ran.load(), std::thread::id());
}

TEST(CommandQueue, HostThatWaitsRunsWhatIsLeft) {
  CommandQueue queue("test");
  static thread_local int depth = 0;
  static std::atomic<int> scopes = 0;
  scopes = 0;
  above.run_as_worker = [](const std::function<void()>& run) {
    ++scopes;
    ++depth;
    run();
    --depth;
  };
  // Which of the two runs a command depends on who is faster; all run once and in order, those of the host in the
  // scope.
  std::vector<int> order, expected;
  const auto host = std::this_thread::get_id();
  for (int i = 0; i < 20000; ++i) {
    const auto numbered = [&order, i, host] {
      order.push_back(i);
      EXPECT_EQ(depth > 0, std::this_thread::get_id() == host);
    };
    queue.submit("c", numbered, 0, i % 7 != 0);
    expected.push_back(i);
    if (i % 3 == 0) queue.drain();
  }
  queue.drain();
  above.run_as_worker = Above().run_as_worker;
  EXPECT_EQ(order, expected);
  EXPECT_GT(scopes, 0);
}

TEST(CommandQueue, AReadDoesNotWaitForWhatIsBehindIt) {
  CommandQueue queue("test");
  queue.set_spin_us(0);  // else this thread runs the last command itself, if other programs took its core before
  std::atomic<bool> open = false;
  const uint64_t made = queue.submit("made", [] {});
  queue.drain();
  queue.submit("after", [] {});  // a command that needs a team, and is done
  queue.drain();
  queue.submit("held", [&] { open.wait(false); }, 0, true);
  EXPECT_TRUE(queue.wait_to_read(made));
  EXPECT_EQ(queue.completed(), 2u);
  open = true;
  open.notify_all();
  queue.drain();
}

TEST(CommandQueue, AReadWaitsForATeamBehindIt) {
  CommandQueue queue("test");
  const uint64_t made = queue.submit("made", [] {}, 0, true);
  queue.drain();
  Gate team(queue);
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.open();
  });
  EXPECT_TRUE(queue.wait_to_read(made));
  EXPECT_GE(queue.completed(), team.sequence());
  opens.join();
}

}  // namespace
}  // namespace openhpu::device
