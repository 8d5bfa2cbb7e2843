#include "device/event.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/command_queue.h"
#include "device/stream.h"
#include "gates.h"

namespace openhpu::device {
namespace {

using testing::Gate;

class EventTest : public ::testing::TestWithParam<bool> {
 protected:
  CommandQueue queue_{"test"};
  Stream stream_{queue_, 0};
};

TEST_P(EventTest, RecordingAgainReplacesThePointAndCopiesKeepIt) {
  Event event(GetParam());
  event.record(stream_);
  event.synchronize();
  const Event copy = event;
  Gate gate(queue_);
  stream_.note(gate.sequence());
  event.record(stream_);
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(copy.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(EventTest, BlockOrdersStreamsOfDifferentQueues) {
  CommandQueue other_queue("other");
  Stream other(other_queue, 0);
  int value = 0;
  Gate gate(queue_);
  stream_.note(queue_.submit("write", [&] { value = 1; }));
  Event event(GetParam());
  event.record(stream_);
  event.block(other);
  EXPECT_EQ(other_queue.submitted(), 1u);  // the command that waits
  int seen = -1;
  other.note(other_queue.submit("read", [&] { seen = value; }));
  EXPECT_FALSE(other.query());
  gate.open();
  other.synchronize();
  EXPECT_EQ(seen, 1);
  EXPECT_FALSE(other_queue.has_error());
}

TEST_P(EventTest, BlockWithinAQueueNeedsNoCommand) {
  CommandQueue& queue = queue_;
  Stream other(queue, 1);
  Gate gate(queue);
  stream_.note(gate.sequence());
  Event event(GetParam());
  event.record(stream_);
  const uint64_t before = queue.submitted();
  event.block(other);
  EXPECT_EQ(queue.submitted(), before);
}

INSTANTIATE_TEST_SUITE_P(Timing, EventTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "WithTiming" : "WithoutTiming";
});

TEST(Event, OneEventMayBeWaitedForByManyThreads) {
  CommandQueue queue("test");
  Stream stream(queue, 0);
  Gate gate(queue);
  Event event(true);
  event.record(stream);
  std::vector<std::thread> threads;
  std::vector<uint64_t> stamps(4);
  for (auto& stamp : stamps) threads.emplace_back([&stamp, event] { stamp = event.timestamp_ns(); });
  gate.open();
  for (auto& thread : threads) thread.join();
  for (uint64_t stamp : stamps) EXPECT_EQ(stamp, event.timestamp_ns());
}

}  // namespace
}  // namespace openhpu::device
