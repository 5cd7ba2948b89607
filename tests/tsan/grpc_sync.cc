// What ThreadSanitizer must know of gRPC to look at code that uses it. gRPC and Abseil come as
// packages, without instrumentation: their locks (futexes) and queues (atomics) are unseen, and all
// that passes through them would be called a race. The functions here stand before those of the
// shared libraries, call them, and say what they order:
//   absl::Mutex, CondVar      what was done before an unlock is seen after the next lock
//   grpc_call_start_batch     what was done before a call begins is seen wherever gRPC has locked
//   grpc_completion_queue_*   since, and where it says that something is done
// The second is more than gRPC promises: a race whose one side begins a call, after it has written,
// is not found. Races between threads of our own are.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <string>

#include "absl/synchronization/mutex.h"
#include "common/base/check.h"

namespace {

char calls;  // Its address stands for all of gRPC.

template <class Function>
Function Find(const std::string& name) {
  void* found = ::dlsym(RTLD_NEXT, name.c_str());
  RT_CHECK_BECAUSE(found != nullptr, name.c_str());
  return reinterpret_cast<Function>(found);
}

#define RT_TEXT_OF(name) #name
#define RT_TEXT(name) RT_TEXT_OF(name)

// The symbol of a method of Abseil's, whose namespace depends on who built it.
std::string SymbolOf(const std::string& rest) {
  const std::string space = RT_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  return "_ZN4absl" + std::to_string(space.size()) + space + rest;
}

void Acquire(void* lock) {
  __tsan_acquire(lock);
  __tsan_acquire(&calls);
}

}  // namespace

namespace absl {

void Mutex::Lock() {
  static const auto real = Find<void (*)(Mutex*)>(SymbolOf("5Mutex4LockEv"));
  real(this);
  Acquire(this);
}

bool Mutex::TryLock() {
  static const auto real = Find<bool (*)(Mutex*)>(SymbolOf("5Mutex7TryLockEv"));
  const bool locked = real(this);
  if (locked) Acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static const auto real = Find<void (*)(Mutex*)>(SymbolOf("5Mutex6UnlockEv"));
  __tsan_release(this);
  real(this);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto real =
      Find<void (*)(CondVar*, Mutex*)>(SymbolOf("7CondVar4WaitEPNS0_5MutexE"));
  __tsan_release(mutex);
  real(this, mutex);
  Acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto real = Find<bool (*)(CondVar*, Mutex*, Duration)>(
      SymbolOf("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
  __tsan_release(mutex);
  const bool timed_out = real(this, mutex, timeout);
  Acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto real = Find<bool (*)(CondVar*, Mutex*, Time)>(
      SymbolOf("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"));
  __tsan_release(mutex);
  const bool timed_out = real(this, mutex, deadline);
  Acquire(mutex);
  return timed_out;
}

}  // namespace absl

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static const auto real = Find<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(&calls);
  return real(call, ops, count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static const auto real =
      Find<decltype(&grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = real(queue, deadline, reserved);
  __tsan_acquire(&calls);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static const auto real =
      Find<decltype(&grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = real(queue, tag, deadline, reserved);
  __tsan_acquire(&calls);
  return event;
}

// Accesses by libraries without instrumentation (memcpy, malloc) say nothing. CallOnDone: gRPC
// counts, in a library, who still holds a call of a server, and the last one frees it in a header.
// InterceptorBatchMethodsImpl: a server with callbacks makes what an interceptor is asked with on
// one of its threads and passes it to another through its queue. Either side may be what is
// reported: the stack of the other one is not always known any more.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1 report_thread_leaks=0 die_after_fork=0";
}
const char* __tsan_default_suppressions() {
  return "race:*::CallOnDone\n"
         "race:InterceptorBatchMethodsImpl::InterceptorBatchMethodsImpl\n"
         "race:InterceptorBatchMethodsImpl::QueryInterceptionHookPoint\n";
}

}  // extern "C"
