#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openhpu {

// Finished objects of one kind, for reuse. Host threads make and take them, and workers give them back. Objects are
// never freed. Their number is the largest number that was in use at once, plus `Reserve` for each thread that lives at
// the same time as others. `T` has a member `next_` and befriends this class.
//
// A thread takes finished objects only after it has made `Reserve` objects. Then many come at once, instead of one at a
// time while the worker puts the next one there.
template <class T, size_t Reserve>
class Recycler {
 public:
  // A finished one or, where there is none, a new one.
  static T* take() {
    if (!mine_) refill();
    T* object = mine_;
    if (object) {
      mine_ = object->next_;
      return object;
    }
    object = new T();
    total_.fetch_add(1, std::memory_order_relaxed);
    ++made_;
    return object;
  }
  // What `take` will return next; null if it is not known.
  static T* next() noexcept { return mine_; }
  static void give(T* object) noexcept { give(object, object); }
  // How many there are.
  static uint64_t total() noexcept { return total_.load(std::memory_order_relaxed); }

 private:
  static void give(T* first, T* last) noexcept {
    last->next_ = finished_.load(std::memory_order_relaxed);
    while (!finished_.compare_exchange_weak(last->next_, first, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  static void refill() noexcept {
    if (made_ < Reserve) inherit();
    if (made_ >= Reserve) mine_ = finished_.exchange(nullptr, std::memory_order_acquire);
  }
  // Objects of ended threads count as this thread's, as far as it needs them. Otherwise each new thread would make its
  // own.
  static void inherit() noexcept {
    static thread_local AtThreadEnd at_thread_end;
    (void)at_thread_end;
    size_t left = ownerless_.load(std::memory_order_relaxed), taken = 0;
    do {
      taken = left < Reserve - made_ ? left : Reserve - made_;
    } while (taken && !ownerless_.compare_exchange_weak(left, left - taken, std::memory_order_relaxed));
    made_ += taken;
  }
  struct AtThreadEnd {
    ~AtThreadEnd() {
      ownerless_.fetch_add(made_, std::memory_order_relaxed);
      made_ = 0;
      T* first = mine_;
      if (!first) return;
      T* last = first;
      while (last->next_) last = last->next_;
      mine_ = nullptr;
      give(first, last);
    }
  };

  static inline std::atomic<T*> finished_{nullptr};
  static inline std::atomic<uint64_t> total_{0};
  static inline std::atomic<size_t> ownerless_{0};
  // Plain, so that access costs nothing; `AtThreadEnd` is for the rare way.
  static inline thread_local T* mine_ = nullptr;
  static inline thread_local size_t made_ = 0;
};

}  // namespace openhpu
