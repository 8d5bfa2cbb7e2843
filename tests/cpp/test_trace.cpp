#include "device/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "device/command_queue.h"

namespace openhpu::device {
namespace {

TEST(Trace, NothingIsRecordedUnlessSomebodyListens) {
  CommandQueue queue("0");
  EXPECT_FALSE(Trace::on());
  queue.submit("test::before", [] {});
  queue.drain();
  const auto listener = Trace::start();
  EXPECT_TRUE(Trace::on());
  queue.submit("test::during", [] {});
  queue.drain();
  const auto data = Trace::stop(listener);
  EXPECT_FALSE(Trace::on());
  ASSERT_EQ(data.records.size(), 1u);
  EXPECT_STREQ(data.records[0].name, "test::during");
  EXPECT_TRUE(Trace::stop(listener).records.empty());
}

TEST(Trace, TimesAreInOrder) {
  CommandQueue queue("0");
  queue.set_index(3);
  const auto listener = Trace::start();
  const uint64_t before = trace_clock();
  queue.submit("test::a", [] {});
  queue.submit("test::b", [] {});
  queue.drain();
  const auto data = Trace::stop(listener);
  ASSERT_EQ(data.records.size(), 2u);
  uint64_t end = 0;
  for (const auto& r : data.records) {
    EXPECT_EQ(r.device, 3);
    EXPECT_EQ(r.thread, trace_thread());
    EXPECT_LE(before, r.launch_begin);
    EXPECT_LE(r.launch_begin, r.launch_end);
    EXPECT_LE(r.launch_end, r.begin);
    EXPECT_LE(end, r.begin);
    EXPECT_LE(r.begin, r.end);
    end = r.end;
  }
  EXPECT_LT(data.records[0].correlation, data.records[1].correlation);
}

TEST(Trace, EachListenerHasItsOwnWindow) {
  CommandQueue queue("0");
  const auto outer = Trace::start();
  queue.submit("test::first", [] {});
  queue.drain();
  const auto inner = Trace::start();
  queue.submit("test::second", [] {});
  queue.drain();
  const auto of_inner = Trace::stop(inner);
  queue.submit("test::third", [] {});
  queue.drain();
  const auto of_outer = Trace::stop(outer);
  ASSERT_EQ(of_inner.records.size(), 1u);
  EXPECT_STREQ(of_inner.records[0].name, "test::second");
  EXPECT_EQ(of_outer.records.size(), 3u);
}

TEST(Trace, WhatWasIssuedBeforeIsNotPartOfIt) {
  CommandQueue queue("0");
  std::atomic<bool> gate{true};
  const auto first = Trace::start();
  queue.submit("gate", [&] { gate.wait(true); });
  queue.submit("test::early", [] {});
  Trace::stop(first);
  const auto second = Trace::start();
  gate = false;
  gate.notify_all();
  queue.drain();
  EXPECT_TRUE(Trace::stop(second).records.empty());
}

TEST(Trace, CommandsHaveParts) {
  CommandQueue queue("0");
  const auto listener = Trace::start();
  queue.submit("test::graph", [] {
    auto* record = Trace::current();
    ASSERT_NE(record, nullptr);
    { MarkScope mark(record, "one", 7); }
    { MarkScope mark(record, "two"); }
  });
  queue.drain();
  EXPECT_EQ(Trace::current(), nullptr);
  const auto data = Trace::stop(listener);
  ASSERT_EQ(data.records.size(), 1u);
  const auto& r = data.records[0];
  ASSERT_EQ(r.marks.size(), 2u);
  EXPECT_STREQ(r.marks[0].name, "one");
  EXPECT_EQ(r.marks[0].site, 7u);
  EXPECT_LE(r.begin, r.marks[0].begin);
  EXPECT_LE(r.marks[0].end, r.marks[1].begin);
  EXPECT_LE(r.marks[1].end, r.end);
}

TEST(Trace, ACommandMayLeaveItsRecordToWhatItBegan) {
  CommandQueue queue("0");
  const auto listener = Trace::start();
  std::unique_ptr<TraceRecord> left;
  queue.submit("test::begins", [&] { left = Trace::take_current(); });
  queue.drain();
  ASSERT_NE(left, nullptr);
  left->end = trace_clock();
  Trace::add(std::move(left));
  EXPECT_EQ(Trace::stop(listener).records.size(), 1u);
}

TEST(Trace, FullTracesCountWhatTheyDrop) {
  CommandQueue queue("0");
  const auto listener = Trace::start(/*most_records=*/2);
  for (int i = 0; i < 5; ++i) queue.submit("test::op", [] {});
  queue.drain();
  const auto data = Trace::stop(listener);
  EXPECT_EQ(data.records.size(), 2u);
  EXPECT_EQ(data.dropped, 3u);
}

TEST(Trace, SpansOfHostThreads) {
  { SpanScope off("nobody listens"); }
  const auto listener = Trace::start();
  std::thread([] {
    SpanScope span("flush");
    ASSERT_TRUE(span);
    span.set_detail("two operators");
  }).join();
  const auto data = Trace::stop(listener);
  ASSERT_EQ(data.spans.size(), 1u);
  EXPECT_EQ(data.spans[0].detail, "two operators");
  EXPECT_NE(data.spans[0].thread, trace_thread());
}

TEST(Trace, ErrorsOfCommandsStayTheQueues) {
  CommandQueue queue("0");
  const auto listener = Trace::start();
  queue.submit("test::fails", [] { throw std::runtime_error("mine"); });
  queue.drain();
  EXPECT_EQ(Trace::stop(listener).records.size(), 1u);
  ASSERT_NE(queue.take_error(), nullptr);
}

}  // namespace
}  // namespace openhpu::device
