import type { ComputeOp } from '@shardwise/core/spec';
import type { Step, StepMap } from '../../compile/step.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import { convolution } from './convolution.ts';
import { elementwise } from './elementwise.ts';
import { indexing } from './indexing.ts';
import { leaves } from './leaves.ts';
import { matmul } from './matmul.ts';
import { movement } from './movement.ts';
import { reduce } from './reduce.ts';
import { rows } from './rows.ts';
import type { Lowerings } from './lowering.ts';

/** Ops with a lowering to ONNX; the WebAssembly kernels compute the others. */
export type OnnxOp = Exclude<
  ComputeOp,
  | 'random'
  | 'geluGrad'
  | 'softmaxGrad'
  | 'logSoftmaxGrad'
  | 'layerNormInputGrad'
  | 'layerNormWeightGrad'
  | 'rmsNorm'
  | 'rmsNormInputGrad'
  | 'rmsNormWeightGrad'
>;

/** From an op to the nodes that compute it. An op without an entry does not compile. */
const lowerings: Lowerings<OnnxOp> = {
  ...leaves,
  ...elementwise,
  ...reduce,
  ...movement,
  ...matmul,
  ...convolution,
  ...indexing,
  ...rows,
};

export function isOnnxOp(op: ComputeOp): op is OnnxOp {
  return op in lowerings;
}

function lowerStep<K extends OnnxOp>(
  table: Lowerings<K>,
  graph: GraphBuilder,
  step: StepMap[K],
): void {
  graph.define(step.output, table[step.op](graph, step));
}

/** Adds a step to a graph; throws for a step that only WebAssembly kernels compute. */
export function lower(graph: GraphBuilder, step: Step): void {
  if (!isOnnxStep(step)) throw new RangeError(`${step.op} has no lowering to ONNX`);
  lowerStep(lowerings, graph, step);
}

function isOnnxStep(step: Step): step is StepMap[OnnxOp] {
  return isOnnxOp(step.op);
}
