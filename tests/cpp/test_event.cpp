#include "device/event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/command_queue.h"
#include "device/stream.h"
#include "gates.h"

namespace openhpu::device {
namespace {

using std::chrono::steady_clock;
using testing::Gate;

class EventTest : public ::testing::TestWithParam<bool> {
 protected:
  CommandQueue queue_{"test"};
  Stream stream_{queue_, 0, 0};
};

TEST_P(EventTest, NeverRecordedCountsAsReached) {
  Event event(GetParam());
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(stream_);
  EXPECT_THROW(event.timestamp_ns(), std::invalid_argument);
}

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
  Stream other(other_queue, 0, 0);
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
  Stream other(queue, 1, 0);
  Gate gate(queue);
  stream_.note(gate.sequence());
  Event event(GetParam());
  event.record(stream_);
  const uint64_t before = queue.submitted();
  event.block(other);
  EXPECT_EQ(queue.submitted(), before);
}

TEST_P(EventTest, WaitsInBothDirectionsEnd) {
  CommandQueue other_queue("other");
  Stream other(other_queue, 0, 0);
  for (int i = 0; i < 200; ++i) {
    Event there(GetParam()), back(GetParam());
    stream_.note(queue_.submit("c", [] {}));
    there.record(stream_);
    there.block(other);
    other.note(other_queue.submit("c", [] {}));
    back.record(other);
    back.block(stream_);
  }
  stream_.synchronize();
  other.synchronize();
}

INSTANTIATE_TEST_SUITE_P(Timing, EventTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WithTiming" : "WithoutTiming"; });

TEST(Event, TimeIsTakenByTheWorkerAndNotByTheHost) {
  CommandQueue queue("test");
  Stream stream(queue, 0, 0);
  Gate gate(queue);
  Event event(true);
  event.record(stream);
  const auto opened = steady_clock::now().time_since_epoch();
  gate.open();
  EXPECT_GE(event.timestamp_ns(), uint64_t(std::chrono::nanoseconds(opened).count()));
}

TEST(Event, TimeNeedsTiming) {
  CommandQueue queue("test");
  Stream stream(queue, 0, 0);
  Event event(false), timed(true);
  event.record(stream);
  timed.record(stream);
  EXPECT_THROW(event.timestamp_ns(), std::invalid_argument);
  EXPECT_THROW(Event::elapsed_ms(timed, event), std::invalid_argument);
}

TEST(Event, OneEventMayBeWaitedForByManyThreads) {
  CommandQueue queue("test");
  Stream stream(queue, 0, 0);
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
