#include "head/core/news.h"

#include "common/base/overloaded.h"

namespace rt {
namespace {

DriverReader OfOwner(const Owner& owner) {
  if (!owner.is_trial()) return {};
  return {.experiment = owner.trial().experiment};
}

}  // namespace

DriverReader ReaderOf(const Event& event) {
  using Reader = DriverReader;
  return std::visit(
      Overloaded{
          [](const event::TrialCreated& e) { return Reader{e.trial.experiment}; },
          [](const event::TrialEnded& e) { return Reader{e.trial.experiment}; },
          [](const event::TrialRetried& e) { return Reader{e.trial.experiment}; },
          [](const event::TrialResumed& e) { return Reader{e.trial.experiment}; },
          [](const event::ExperimentDecided& e) { return Reader{e.experiment}; },
          // A driver knows its own answers; one that was told of each of them would answer that.
          [](const event::DriverAnswered& e) { return Reader{e.experiment, e.session}; },
          [](const event::AttemptStarted& e) { return OfOwner(e.attempt.owner); },
          [](const event::AttemptEnded& e) { return OfOwner(e.attempt.owner); },
          [](const event::CheckpointCommitted& e) { return OfOwner(e.attempt.owner); },
          [](const event::ReportsAccepted& e) {
            return e.rank == 0 && e.count > 0 ? OfOwner(e.attempt.owner) : Reader{};
          },
          [](const auto&) { return Reader{}; },
      },
      event);
}

void NoteNews(World& world, const Event& event, uint64_t seq) {
  // A new driver has everything to read, including the answers of the drivers before it.
  const auto* attached = std::get_if<event::DriverAttached>(&event);
  const ExperimentId id = attached != nullptr ? attached->experiment : ReaderOf(event).experiment;
  auto index = world.index.experiments.find(id);
  if (index == world.index.experiments.end()) return;
  const uint64_t session = world.state.experiments.at(id).drivers.size();
  if (attached != nullptr || ReaderOf(event).Is(id, session)) index->second.news_seq = seq;
}

}  // namespace rt
