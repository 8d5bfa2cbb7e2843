#include "device/stream.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/command_queue.h"

namespace openhpu::device {
namespace {

TEST(Stream, TheLargestNumberCounts) {
  CommandQueue queue("test");
  Stream stream(queue, 0);
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
