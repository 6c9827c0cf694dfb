// Variables that functions of tf.data pipelines use.
//
// What a pipeline runs is not seen, only who makes it and who asks it for something. So whoever asks any of them is taken
// to use what all of them may.
#ifndef RECGRAPH_CC_PYTHON_PIPELINES_H_
#define RECGRAPH_CC_PYTHON_PIPELINES_H_

#include "cc/python/resources.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"

namespace recgraph {

// Notes the variables that an operation hands to a pipeline. To be told of every operation.
void NotePipeline(const tensorflow::EagerOperation& operation);

// Adds what pipelines may do with variables, if this operation may ask one.
void AddPipelineUses(const tensorflow::EagerOperation& operation, Uses* uses);

// Whether a pipeline writes some variable. Its own threads do so, which nobody sees. Any thread.
bool PipelinesWrite();

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_PIPELINES_H_
