// Whether a plan fits together. Plans come out of files, which may be damaged or made to do harm: what is found
// right here, once, when a program is made, the machine need not look at again.
#ifndef RECGRAPH_CC_CORE_PLAN_VERIFIER_H_
#define RECGRAPH_CC_CORE_PLAN_VERIFIER_H_

#include <string>

#include "cc/core/batch_plan.h"

namespace recgraph {
namespace batch {

// Returns "" or what is wrong with the first thing that is, with its function and node. Takes time in proportion to
// the plan's size, but for the logarithms of sorting: a call's targets are compared by numbers, and what is read of a
// function that is called has been verified before. Every number that is an index, a count, a kind or an identity is looked at:
//
// - slots: the arguments, then exactly one slot for each result of a node that somebody reads;
// - reads: a node waits itself for the event that tells of each slot it reads;
// - events: event 0 is the beginning, every other one is fired once, by one node, and no node waits for itself;
// - groups: of results, each result in one, each group told of once, when its slots are written;
// - calls: arguments, results and groups are those of each function that may be called, all of which have the same;
// - loops and maps: the fixed form that the machine expects of them;
// - blocks: each is run by one node, which is the one that it names; its outputs, captures and sums;
// - recursion: goes through calls that count as invocations, so that `max_depth` ends it.
//
// What only a run can know (whether a value is a frame or a tensor, how many values a frame has, dtypes and shapes,
// the number of captured tensors) is checked there.
std::string VerifyPlan(const Plan& plan);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_PLAN_VERIFIER_H_
