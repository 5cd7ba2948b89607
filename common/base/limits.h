// Every bound on a queue, batch, message, retry or wait, with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/time.h"

namespace rt::limits {

// Inputs that wait for the core thread; above it the edge answers RESOURCE_EXHAUSTED.
inline constexpr size_t kInboxInputsMax = 16'384;
// Slots of the inbox that only Sync may use: control continues when reports flood.
inline constexpr size_t kInboxReservedForSync = 4'096;
// Inputs in one batch: one transaction, small enough to keep the tail latency low.
inline constexpr size_t kBatchInputsMax = 512;
// Batches whose append is not yet durable; more would only grow memory.
inline constexpr size_t kBatchesInFlightMax = 4;
// One wire message on the control services.
inline constexpr size_t kMessageBytesMax = 4u << 20;
// Intervals of trials that a model of a population's progress is fitted to, the newest ones. A fit
// takes about 40 ms with this many.
inline constexpr size_t kExploreSamplesMax = 128;
// A stop expression is looked at for every row; people write a handful of comparisons.
inline constexpr size_t kStopExpressionBytesMax = 4'096;
inline constexpr int kStopExpressionDepthMax = 32;
// Values of a trial that a plateau rule compares: they are kept in the state for each trial.
inline constexpr uint32_t kPlateauResultsMax = 256;
// Bytes of one message on the byte streams: 1 MiB chunks measured best, with room for headers.
inline constexpr size_t kChunkMessageBytesMax = 16u << 20;
inline constexpr size_t kStreamPieceBytes = 1u << 20;
// Fixed chunk size of the content-addressed store.
inline constexpr size_t kChunkBytes = 4u << 20;

// Text of a manifest: it travels in one message of the byte streams, whose other fields are small.
// With chunks of kChunkBytes it is what a tree of about 850 GiB needs.
inline constexpr size_t kManifestBytesMax = 15u << 20;

// Text fields: names, reasons, ids.
inline constexpr size_t kNameBytesMax = 256;
// What the folder of an experiment or a trial begins with: a file's name has at most 255 bytes, and
// "_EXP_00000", a suffix for a second one and ".tmp" follow.
inline constexpr size_t kFolderNameBytesMax = 200;
inline constexpr size_t kReasonBytesMax = 4'096;
inline constexpr size_t kSpecBytesMax = 1u << 20;       // An experiment's spec as JSON.
inline constexpr size_t kParamsBytesMax = 64u << 10;    // One configuration.
inline constexpr size_t kMetricsBytesMax = 1u << 20;    // One row; the state has a trial's newest.
// Samples of an experiment, and its time budget: more is a slip of the pen.
inline constexpr int64_t kSamplesMax = 1'000'000'000;
inline constexpr Millis kTimeBudgetMax = Millis{1'000'000'000} * 1'000;
// Of a search space: each is a key of every trial's configuration, and a column in lists. Searches
// have tens of them; a thousand is a mistake, and a Step draws hundreds of configurations.
inline constexpr size_t kVariablesMax = 1'000;
// Metrics that a search improves together, and constraints of it. Every trial of a large number of
// objectives is as good as every other, and the volume that a front dominates is computed exactly.
inline constexpr size_t kObjectivesMax = 6;
// Configurations that a search is given to begin with: people write some, scripts a few hundred.
inline constexpr size_t kPointsMax = 10'000;
// Earlier experiments that a search learns from, and the results of them that it is told: the best
// and the newest, one half each, as many as the models look at. They are journalled with it.
inline constexpr size_t kWarmStartMax = 16;
inline constexpr size_t kWarmResultsMax = 1'000;
// Rungs of one bracket: a factor barely above 1 would make them without end.
inline constexpr size_t kRungsMax = 4'096;
// Brackets of one search. Each begins a rung later than the one before.
inline constexpr uint32_t kBracketsMax = 64;
// Configurations in one Answered record: a driver reads it whole, in one message. More become
// several records.
inline constexpr size_t kAnswerBytesMax = 1u << 20;
// Metrics in one row, and different ones in a trial (a nested one counts for each leaf): each is a
// column of progress.csv and a chart in TensorBoard. Statistics per layer of the largest models are
// a few thousand; a name that contains a counter is a mistake.
inline constexpr size_t kMetricKeysPerRow = 5'000;
inline constexpr size_t kMetricKeysPerTrial = 10'000;
inline constexpr size_t kErrorBytesMax = 64u << 10;     // A user's traceback.
inline constexpr size_t kArgvBytesMax = 1u << 20;
inline constexpr size_t kYamlBytesMax = 1u << 20;
inline constexpr int kNestingMax = 64;

// Rows in one Report call, and the time a row may wait for company.
inline constexpr size_t kReportRowsMax = 4'096;
inline constexpr size_t kReportBytesMax = 2u << 20;
inline constexpr Millis kReportDelayMax = 20;
// Bytes of a trial's rows in one answer, as JSON: half of a message, since one more row may be
// added and the size of a row as JSON is an estimate. And the bytes that are read from the journal
// at once.
inline constexpr size_t kRowsAnswerBytes = 2u << 20;
inline constexpr size_t kRowsReadBytes = 4u << 20;
// Checkpoints of an attempt between their row and their commit, of which the head knows what the
// trial knew; a worker pushes fewer at once.
inline constexpr size_t kCheckpointRowsMax = 4;
// Of an experiment, on either side of 0: enough to have a few between any two.
inline constexpr int64_t kPriorityMost = 1'000;
// Waiting trials that preempt in one round of placement at most; the next round continues.
inline constexpr size_t kPreemptionsPerRound = 64;
// Failures of a trial that its experiment's retry rules forgive; the next ones count.
inline constexpr uint32_t kExcusedMax = 100;
// Of its log, what those rules' patterns are looked for in, per stream, and the longest line.
inline constexpr Bytes kPatternLogBytes = 64 << 10;
inline constexpr size_t kPatternLineBytes = 4'096;
// A compiled pattern with what its search caches; and its instructions: each may be looked at for
// each byte of a line.
inline constexpr int64_t kPatternMemory = 1 << 20;
inline constexpr int kPatternSteps = 2'000;
// Processor time that a worker's loop spends on one attempt's patterns: on those of its retry rules
// at its end, on one line of its output, and on its output in one turn. An ordinary pattern needs
// less than a hundredth of it.
inline constexpr Millis kPatternsAtEnd = 250;
inline constexpr Millis kPatternOfLine = 50;
inline constexpr Millis kPatternOfRound = 20;
// Rows of one experiment that wait to be written to its result files, as they are in memory; those
// beyond are read from the journal again when their turn comes.
inline constexpr size_t kSinkQueueBytesMax = 64u << 20;
// Columns of a trial's progress.csv that the sinks' cursor lists. A trial with more is written
// again after a restart: the cursor is written twice a second, and stays small.
inline constexpr size_t kCursorColumnsMax = 256;
// Unacknowledged rows of one attempt on a worker; then report() blocks.
inline constexpr Bytes kSpoolBytesMax = 64 << 20;

// Certificates whose text was read already; above it the memory of them starts again.
inline constexpr size_t kKnownPeersMax = 4'096;

// Points of a trial's curve, for schedulers that compare running means: 6 KiB for each trial. Of a
// trial with more rows, means are as of the next earlier point.
inline constexpr size_t kCurvePointsMax = 256;
// Clones that the state keeps of each trial: enough for its lineage. The journal has all of them.
inline constexpr size_t kClonesKept = 64;
// Trials created ahead of the resources, per experiment: enough to show what is coming.
inline constexpr size_t kPendingTrialsMax = 1'024;
// Trials created by one Step, so that one input stays short.
inline constexpr size_t kTrialsPerStepMax = 256;
// Configurations that a search model is asked for at once: each is proposed without the results of
// the others.
inline constexpr size_t kLaneBatchMax = 64;
// A model on the compute lane is to answer within this time; the rest of its batch is asked anew.
inline constexpr Millis kLaneAnswerMax = 10'000;
// The core waits this long for the lane, which may be busy with a model that ignores its deadline;
// then the experiment continues without its model.
inline constexpr Millis kLaneOverdueAfter = 30'000;
// Trials times parameters of one experiment that a model keeps: 40 MB as numbers, and twice.
inline constexpr size_t kModelCoordinatesMax = 5'000'000;
// Why a trial has no proposal of its model, in bytes: it is journalled with each such trial.
inline constexpr size_t kFallbackReasonMax = 200;
// Configurations that a driver is asked for at once.
inline constexpr size_t kAskedMax = 64;
// A driver that was not heard for this long is away: whoever looks is told that things wait for it.
inline constexpr Millis kDriverAwayAfter = 5'000;
// Experiments, and jobs, that Status lists: of those that are over the newest, and of the others
// the oldest, which run. The rest is counted, and is in the lists: with thousands of jobs Status
// was more than a megabyte, and whoever looks asks for it every few seconds.
inline constexpr size_t kStatusOverMax = 100;
inline constexpr size_t kStatusOpenMax = 1'000;
// Finished experiments, and jobs, that Status lists for drivers of releases without pages.
inline constexpr size_t kStatusWholeMax = 1'000;
// Bytes of either as text, so that Status fits in a message whatever the items hold; and what waits
// by experiment and needs.
inline constexpr size_t kStatusPartBytes = 1u << 20;
inline constexpr size_t kStatusWaitingMax = 500;
// Items in one page of a list, which the core thread makes: some milliseconds of its time.
inline constexpr size_t kListItemsMax = 500;
// An older daemon of a node that is still heard so long after a later one has not just been
// replaced: two programs have the node's identity. It is said for kRivalSaid after its last call.
inline constexpr Millis kRivalAfter = 5'000;
inline constexpr Millis kRivalSaid = 30'000;
// A daemon that the head ignores for a later one takes a later number itself once that one was
// silent for so long: longer than a machine or a network stands still that works.
inline constexpr Millis kRivalSilent = 10'000;
inline constexpr size_t kTokensMax = 4'096;

// Sync is held this long when nothing changes (up to 1 000 workers; the head stretches it beyond).
inline constexpr Millis kSyncHold = 500;
// How long a worker keeps what no one waits for (that a program runs now) for the next Sync.
inline constexpr Millis kSyncDelayMax = 10;
// The number of the first call of a daemon that a head hears (a thousand a second for 34 years),
// and how far the next one may be ahead of it: as many as a daemon makes in vain while
// its lease lasts. A number beyond that was made up: no call of the daemon would exceed it.
inline constexpr uint64_t kSyncSeqFirst = uint64_t{1} << 40;
inline constexpr uint64_t kSyncSeqJump = uint64_t{1} << 20;
// A node that says nothing for this long is SUSPECT, then LOST.
inline constexpr Millis kSuspectAfter = 1'000;
inline constexpr Millis kLostAfter = 1'800;
// A node whose connection closed and which did not come back.
inline constexpr Millis kLostAfterDisconnect = 1'000;
// The same when the head's own provider starts the daemon again: the machine is there, and a busy
// one may need seconds for that.
inline constexpr Millis kDaemonRestart = 5'000;
// When so many nodes, and more than this share of those that should be here, are silent at once, it
// is rather the network or the head itself: nobody is called lost then, for so long at the most.
inline constexpr size_t kVanishedNodesMin = 3;
inline constexpr size_t kVanishedPercent = 30;
inline constexpr Millis kFreezeMax = 30'000;
// A worker without a head for this long (rt-worker --disconnect-stop) asks what runs to save, and
// ends it: its work may be done elsewhere by then, and the machine may cost money.
inline constexpr Millis kDisconnectStop = Millis{15} * 60'000;
// A worker's loop that does not move for so long is hung (rt-worker --loop-hang): longer than any
// disk that works takes, shorter than systemd waits for a sign of life.
inline constexpr Millis kLoopHang = 30'000;
// How long a worker that is stopped in order announces to be away, unless it is told otherwise
// (rt-worker --away), and the most that a head believes: what runs there keeps its place so long.
inline constexpr Millis kAwayFor = 10'000;
inline constexpr Millis kAwayMost = Millis{5} * 60'000;
// What every node gets after the head (re)started before it may be called lost.
inline constexpr Millis kRestartGrace = 5'000;
// The loop wakes at least this often; a longer gap is the head's own stall, not the nodes' fault.
inline constexpr Millis kTickInterval = 100;
inline constexpr Millis kStallAfter = 400;

// From the request to stop until SIGKILL.
inline constexpr Millis kStopGrace = 5'000;
// A deadline that lies beyond is none.
inline constexpr Millis kDrainMax = Millis{30} * 24 * 3'600'000;
// A machine that is still there so long after the deadline of its notice stays: a false alarm.
inline constexpr Millis kNoticeGrace = 60'000;
// A deadline that moves by less than this is the same, told once more.
inline constexpr Millis kDeadlineShift = 2'000;
// A program that hangs has this long to write its stacks into its log.
inline constexpr Millis kDumpGrace = 1'000;
// How long a program that is being paused may take to save before it is asked to end.
inline constexpr Millis kSuspendGrace = 30'000;
// Attempts that are frozen on a node, or are being frozen: each keeps its memory, and an attempt
// that asks for none may have any amount of it.
inline constexpr size_t kFrozenPerNode = 8;
// How long a node may take to freeze an attempt once it has saved: 140 GB of a gpu's memory move to
// the host in about 90 s. Then it saves and ends, as without the wish.
inline constexpr Millis kFreezeMost = 300'000;
// How long a frozen trial that may run waits for its own cpus and gpus while another node has
// capacity. Then it starts there from its newest checkpoint, which costs a start.
inline constexpr Millis kThawWait = 30'000;
// How long an attempt that is resized may take to save, unless the request says otherwise: as when
// it is paused. And the most that a request may say: capacity that it grows by is idle meanwhile.
inline constexpr Millis kResizeSaveWithin = 30'000;
inline constexpr Millis kResizeSaveMost = 3'600'000;
// Attempts of one owner that machines (not the trial) ended in a row before it is called poison.
inline constexpr uint32_t kInfraLossesMax = 100;

// Bundles of one attempt, and so its ranks: placement tries them in one Step.
inline constexpr size_t kBundlesMax = 1'024;
// How often a worker asks its gpus whether they are well.
inline constexpr Millis kGpuLookEvery = 5'000;
// How often it samples what they do: what nvidia-smi and the exporters of others do as well.
inline constexpr Millis kGpuSampleEvery = 1'000;
// A call of the driver that takes longer hangs: the slowest healthy ones take tens of milliseconds.
inline constexpr Millis kGpuCallMax = 10'000;
// How often a worker looks if the gpus of an attempt that ended are free, and for how long: the
// end is told after that anyway, and the gpu has a fault as long as its memory stays in use.
inline constexpr Millis kGpuFreeEvery = 10;
inline constexpr Millis kGpuFreeWait = 5'000;
// Memory beyond that of the idle device that still counts as free.
inline constexpr Bytes kGpuFreeSlack = Bytes{64} << 20;
// An attempt whose gpu has failed has so long to end by itself.
inline constexpr Millis kGpuFaultGrace = 10'000;
// The test of a trial's gpus before it starts. One takes 2 s, all of a node are tested at once, and
// NCCL takes seconds to connect eight of them.
inline constexpr Millis kPreflightMax = 10'000;
// The nodes of a gang wait so long for each other before their all-reduce: the others start once
// rank 0's node has a port, and may still have files to fetch.
inline constexpr Millis kPreflightMeetMax = 30'000;
// Where the all-reduce over the nodes of a gang is too slow, each node has so long to measure its
// links to the node before and to the node after it.
inline constexpr Millis kPreflightLinksMax = 6'000;
// A failed preflight that names neither a gpu nor a link counts as lost. It counts as a failed
// launch once this many preflights in a row have failed before it.
inline constexpr int kPreflightLossesMax = 3;
// Slow links that the head knows. The oldest is forgotten first: a preflight finds it again.
inline constexpr size_t kSlowLinksMax = 1'000;
// Processes listed for one gpu. A gpu has memory for fewer contexts than this.
inline constexpr size_t kGpuProcessesMax = 64;

// Snapshot of the state after this many events.
inline constexpr uint64_t kSnapshotEveryEvents = 100'000;

// Attempts without any output that a worker remembers: more than the short trials of one large
// search on one node, and 2 MB of memory. The output of an older one would count as lost.
inline constexpr size_t kSilentAttemptsMax = 20'000;

// Bundles.
inline constexpr size_t kBundleFilesMax = 100'000;
inline constexpr Bytes kBundleBytesMax = Bytes{2} << 30;
// From this size on `rt submit` says what takes the room: code is smaller, data and environments
// that came along by accident are not, and each push of so much is felt.
inline constexpr Bytes kBundleNoticeBytes = Bytes{100} << 20;
inline constexpr size_t kPathBytesMax = 4'096;
// The least quota of a checkpoint store: less is a slip of the pen.
inline constexpr Bytes kStoreQuotaMin = Bytes{1} << 20;
// What checkpoints leave free of a file system: percent of it, at most this much. The journal and
// the results are on the same disk: they use it until there is space again. On a small one
// it is what the journal's log (64 MiB) and what it is folded into need, with half as much for the
// rest, but at most a quarter.
inline constexpr Bytes kFreePercent = 5;
inline constexpr Bytes kFreeBytesMax = Bytes{2} << 30;
inline constexpr Bytes kFreeBytesMin = Bytes{160} << 20;
// Unpacked bundles and inputs that a worker keeps for the next attempt beside those in use.
inline constexpr size_t kCachedTreesMax = 64;
inline constexpr Bytes kCachedTreeBytesMax = Bytes{8} << 30;
// A checkpoint from this size on is large: large ones never occupy all threads that push, so that
// those of the other attempts of the node do not wait for them. It takes seconds to minutes.
inline constexpr Bytes kLargePushBytes = Bytes{1} << 30;
// A checkpoint whose push has not ended this long after its attempt was stopped and ended is
// given up, and its owner can be told that it is over. The largest checkpoint needs as long at
// 1 GB/s.
inline constexpr Millis kPushAfterStop = Millis{15} * 60'000;
// Checkpoints that a worker keeps for the next restore here and for other workers; and no more than
// a tenth of the disk, unless it is told how much.
inline constexpr size_t kKeptCheckpointsMax = 256;
inline constexpr Bytes kKeptCheckpointBytesMax = Bytes{10} << 30;
// Smaller trees come from the head: asking who else has them takes as long.
inline constexpr Bytes kPeerTreeBytesMin = Bytes{4} << 20;
// A chunk that is on its way to a peer is waited for as long as something comes there this often.
inline constexpr Millis kPeerStall = 20'000;
// Digests that one call asks for or asks about: with 70 bytes each they fit into one message.
inline constexpr int kDigestsMax = 10'000;
// What the head said of a peer, whether it has left the cluster, is believed for so long: a pull of
// many streams asks once. And the number of peers of which a worker remembers it.
inline constexpr Millis kPeerMemberFor = 5'000;
inline constexpr size_t kPeersRemembered = 4'096;
// Streams that a worker serves to others at the same time.
inline constexpr size_t kPeerStreamsMax = 24;
// Trees that one worker may list in HoldTrees, and that the head remembers of all.
inline constexpr size_t kAnnouncedTreesPerNode = 1'000;
inline constexpr size_t kAnnouncedTreesMax = 100'000;

// The part of an attempt's outputs that is kept, of all its ranks together (rt-worker
// --keep-outputs) and of each rank; smaller files come first.
inline constexpr Bytes kOutputBytesMax = Bytes{1} << 30;
inline constexpr size_t kOutputFilesMax = 20'000;
// Paths that the head knows by name, of the files that are kept and of those that are left out, and
// their bytes: the state holds them for every trial.
inline constexpr size_t kOutputNamesMax = 20;
inline constexpr size_t kOutputNamesBytesMax = 2'048;
// Outputs that wait on a worker's disk for the head or the store, and their bytes. A worker that
// has this much starts nothing new until some are kept; a Sync may name as many.
inline constexpr size_t kOutputsWaitingMax = 1'000;
inline constexpr Bytes kOutputsWaitingBytesMax = Bytes{10} << 30;
// Outputs for which the store has no room are given up after this long, and named.
inline constexpr Millis kOutputsWaitForSpace = 60'000;

// Warm-start servers of a node, each as large as what its trainable imports, and how long one stays
// without trials: longer than any gap within a search, shorter than anybody misses the memory.
inline constexpr size_t kWarmServersMax = 4;
inline constexpr Millis kWarmIdle = 15'000;
// An attempt waits this long for a server that is still importing; then it imports for itself, and
// can be seen, and stopped, while it does.
inline constexpr Millis kWarmWait = 30'000;
// Trainables known not to suit a warm start; above it the memory of them starts again.
inline constexpr size_t kWarmRefusalsMax = 256;

// Logs of one attempt's stream: bytes per file, files kept.
inline constexpr Bytes kLogFileBytesMax = 32 << 20;
inline constexpr int kLogFilesKept = 4;
// Logs that the head fetches from machines by demand before they go: of one stream, of one node,
// and of all together, on the head's disk. A node waits for that so long before it is released.
inline constexpr size_t kFetchedLogBytesMax = 10u << 20;
inline constexpr size_t kFetchedLogsOfNodeMax = 500;
inline constexpr size_t kFetchedLogsMax = 50'000;
inline constexpr Bytes kFetchedLogsBytesMax = Bytes{4} << 30;
inline constexpr Millis kFetchLogsMax = 30'000;

// --- nodes by demand ---------------------------------------------------------------------------

// The bounds of one request_resources: different shapes of bundles, and bundles in all. The planner
// computes the request anew after every change, and no cluster of one head can hold more.
inline constexpr size_t kRequestedShapesMax = 100;
inline constexpr uint64_t kRequestedBundlesMax = 100'000;

// The check of a request looks at this many nodes of a pool at most: no gang needs more.
inline constexpr uint32_t kPlannedNodesMax = 1'024;
// Machines that one call asks a provider for: EC2 and others take more, but what fails, fails for
// all of a call.
inline constexpr uint32_t kMachinesPerRequest = 100;
// A machine whose node has not joined by then is released: its join token has expired.
inline constexpr Millis kMachineJoinMax = 900'000;
// A machine whose node was lost comes back by then, or is released: a reboot takes less.
inline constexpr Millis kMachineLostMax = 300'000;
// Between two attempts to get machines of a pool: doubled from the first to the last. A request
// whose answer is missing may have made machines, and is looked after sooner.
inline constexpr Millis kMachineRetryFirst = 5'000;
inline constexpr Millis kMachineRetryMax = 300'000;
inline constexpr Millis kMachineLookFirst = 500;
inline constexpr Millis kMachineLookMax = 60'000;
// Between two looks at what the provider has: a machine that vanished without a word is found by
// its node's silence long before that.
inline constexpr Millis kMachineListEvery = 30'000;
// Between two comparisons of the provider's machines with the state, if nothing happens to them.
inline constexpr Millis kReconcileEvery = 100;
// autoscaling.hooks: commands that wait for their turn, and bytes kept of a command's output.
inline constexpr size_t kHooksQueuedMax = 1'024;
inline constexpr size_t kHookOutputMax = 4'096;
// Nodes that left the cluster, which lists of nodes still show. Each spot machine that came and
// went is one. Apply drops the oldest beyond it, so that the number is part of the meaning of
// NodeGone: it never changes.
inline constexpr size_t kGoneNodesKept = 1'000;

}  // namespace rt::limits
