#pragma once
// An instance of a model: execution contexts of its own, which run one batch at a time.

#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "integrations/triton/request.h"
#include "integrations/triton/served_model.h"
#include "integrations/triton/times.h"
#include "runtime/engine/timed_calls.h"

namespace tv::triton {

class Instance : public ServedInstance {
 public:
  Instance(TRITONBACKEND_ModelInstance* handle, ServedModel& model)
      : handle_(handle), model_(model) {}

  /// Answers all requests, with errors where they are wrong, and releases them. Requests of equal
  /// sizes run together, as far as max_batch_size goes.
  void execute(std::span<TRITONBACKEND_Request* const> requests) noexcept override;

 private:
  using Group = std::vector<Request*>;
  /// What follows from a batch's sizes.
  struct Bound {
    cli::Bound of;
    std::vector<bool> row_major;  ///< of outputs
    std::vector<std::vector<int64_t>> strides;
  };

  std::vector<Group> groups_of(std::list<Request>& requests) const;
  void run(Group group, Times times);
  Times compute(const Group& group, const Bound& bound, Times times);
  /// The group failed: others of it are not harmed by one.
  void after_error(const Group& group, const Times& times, const std::exception& error);
  void answer(const Group& group, Times times, int64_t rows);
  void refuse(Request& request, const Times& times, const std::exception& error);
  const Bound& bind(const Group& group);
  void follow_the_model();
  TimedCalls& calls_of(const std::shared_ptr<Engine>& engine);

  TRITONBACKEND_ModelInstance* handle_;
  ServedModel& model_;
  // Of this network of the model's:
  std::shared_ptr<const cli::Network> network_;
  std::map<const Engine*, TimedCalls> calls_;
  std::map<std::vector<int64_t>, Bound> bound_;  ///< by all sizes
};

}  // namespace tv::triton
