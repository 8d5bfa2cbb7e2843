#include "device/stream.h"

#include <gtest/gtest.h>

#include "device/command_queue.h"
#include "gates.h"

namespace openhpu::device {
namespace {

TEST(Stream, TheLargestNumberCounts) {
  CommandQueue queue("test");
  Stream stream(queue, 0);
  stream.note(5);
  stream.note(3);
  EXPECT_EQ(stream.last(), 5u);

  testing::in_threads(4, [&](int number) {
    for (uint64_t i = 0; i < 2000; ++i) stream.note(4 * i + static_cast<uint64_t>(number));
  });
  EXPECT_EQ(stream.last(), 7999u);
}

}  // namespace
}  // namespace openhpu::device
