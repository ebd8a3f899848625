import { type DimRange, functional, indicesInRange, type Tensor } from '@shardwise/core/extend';
import type { OpCall, UnaryOp } from './op-call.ts';

const unary: { readonly [K in UnaryOp]: (x: Tensor) => Tensor } = {
  neg: (x) => x.neg(),
  abs: (x) => x.abs(),
  exp: (x) => x.exp(),
  log: (x) => x.log(),
  sqrt: (x) => x.sqrt(),
  square: (x) => x.square(),
  tanh: (x) => x.tanh(),
  sigmoid: (x) => x.sigmoid(),
  relu: (x) => x.relu(),
  gelu: (x) => x.gelu(),
  silu: (x) => x.silu(),
};

/** The rows of a first dim of `size` that this rank has. */
export interface OwnRows extends DimRange {
  readonly size: number;
}

/** Runs an op on this rank's parts of its inputs. `rows` are the rows of the last input that this rank has. */
export function localOp(call: OpCall, inputs: readonly Tensor[], rows: OwnRows): Tensor {
  const [x, y, z] = inputs;
  if (x === undefined) throw new RangeError(`${call.op} without input`);
  switch (call.op) {
    case 'neg':
    case 'abs':
    case 'exp':
    case 'log':
    case 'sqrt':
    case 'square':
    case 'tanh':
    case 'sigmoid':
    case 'relu':
    case 'gelu':
    case 'silu':
      return unary[call.op](x);
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'maximum':
    case 'minimum':
      return x[call.op](given(call, y));
    case 'withNumber':
      return x[call.binary](call.value);
    case 'ne':
      return x.ne(call.value);
    case 'to':
      return x.to(call.dtype);
    case 'sum':
    case 'max':
      return x[call.op](call.dims, { keepDim: call.keepDim });
    case 'permute':
      return x.permute(call.order);
    case 'matmul':
      return x.matmul(given(call, y), { transposeB: call.transposeB });
    case 'softmax':
    case 'logSoftmax':
      return x[call.op](call.dim);
    case 'layerNorm':
      return x.layerNorm(given(call, y), given(call, z), call.eps);
    case 'rmsNorm':
      return x.rmsNorm(given(call, y), call.eps);
    case 'embedding':
      return embeddingOfRows(x, given(call, y), rows);
    case 'crossEntropy':
      return functional.crossEntropy(x, given(call, y), {
        reduction: 'none',
        ignoreIndex: call.ignoreIndex,
        labelSmoothing: call.labelSmoothing,
      });
    default:
      return call satisfies never;
  }
}

function given({ op }: OpCall, input: Tensor | undefined): Tensor {
  if (input !== undefined) return input;
  throw new RangeError(`${op} lacks an input`);
}

/** Looks up embeddings. The result is zeros for rows of other ranks, as in Megatron's VocabParallelEmbedding. */
function embeddingOfRows(indices: Tensor, weight: Tensor, { start, stop, size }: OwnRows): Tensor {
  // A rank without rows looks up a row of padding, so that all ranks build the same graph.
  const rows = stop > start ? weight : weight.pad([0, 0], [1, 0]);
  const inRange = indicesInRange(indices, size, 'embedding');
  const isHere = inRange.ge(start).logicalAnd(inRange.lt(stop));
  const found = functional.embedding(isHere.where(inRange.sub(start), 0), rows);
  return isHere.unsqueeze(-1).where(found, 0);
}
