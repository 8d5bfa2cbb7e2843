#include "device/stream.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/command_queue.h"
#include "gates.h"

namespace openhpu::device {
namespace {

using testing::Gate;

TEST(Stream, AnEmptyStreamIsDone) {
  CommandQueue queue("test");
  Stream stream(queue, 3, -1);
  EXPECT_EQ(stream.id(), 3);
  EXPECT_EQ(stream.priority(), -1);
  EXPECT_EQ(&stream.queue(), &queue);
  EXPECT_EQ(stream.last(), 0u);
  Gate gate(queue);  // another stream's work
  EXPECT_TRUE(stream.query());
  stream.synchronize();
}

TEST(Stream, QueryAndSynchronizeAreExactForOwnCommands) {
  CommandQueue queue("test");
  Stream first(queue, 0, 0), second(queue, 1, 0);
  bool ran = false;
  first.note(queue.submit("c", [&] { ran = true; }));
  Gate gate(queue);
  second.note(gate.sequence());

  first.synchronize();  // returns although the second stream is blocked
  EXPECT_TRUE(ran);
  EXPECT_TRUE(first.query());
  EXPECT_FALSE(second.query());
  gate.open();
  second.synchronize();
  EXPECT_TRUE(second.query());
}

TEST(Stream, SynchronizeIsNotHeldUpByLaterWorkOfOthers) {
  CommandQueue queue("test");
  Stream first(queue, 0, 0), second(queue, 1, 0);
  Gate gate_first(queue);
  first.note(gate_first.sequence());
  Gate gate_second(queue);
  second.note(gate_second.sequence());
  std::thread waiter([&] { first.synchronize(); });
  gate_first.open();
  waiter.join();
  EXPECT_FALSE(second.query());
}

TEST(Stream, TheLargestNumberCounts) {
  CommandQueue queue("test");
  Stream stream(queue, 0, 0);
  stream.note(5);
  stream.note(3);
  EXPECT_EQ(stream.last(), 5u);

  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&stream, t] {
      for (uint64_t i = 0; i < 2000; ++i) stream.note(4 * i + t);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(stream.last(), 7999u);
}

}  // namespace
}  // namespace openhpu::device
