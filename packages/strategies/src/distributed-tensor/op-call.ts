import type { DType } from '@shardwise/core/extend';

/** Elementwise ops of one tensor. */
export type UnaryOp =
  | 'neg'
  | 'abs'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'square'
  | 'tanh'
  | 'sigmoid'
  | 'relu'
  | 'gelu'
  | 'silu';

/** Elementwise ops of two tensors that broadcast, or of a tensor and a number. */
export type BinaryOp = 'add' | 'sub' | 'mul' | 'div' | 'maximum' | 'minimum';

/** An op on distributed tensors, without its inputs. Dims count from the start. */
export type OpCall =
  | { readonly op: UnaryOp }
  | { readonly op: BinaryOp }
  | { readonly op: 'withNumber'; readonly binary: BinaryOp; readonly value: number }
  | { readonly op: 'ne'; readonly value: number }
  | { readonly op: 'to'; readonly dtype: DType }
  | { readonly op: 'sum' | 'max'; readonly dims: readonly number[]; readonly keepDim: boolean }
  | { readonly op: 'permute'; readonly order: readonly number[] }
  /** Shape: a [.., M, K], b [.., K, N] -> [.., M, N]; `transposeB`: b [.., N, K]. */
  | { readonly op: 'matmul'; readonly transposeB: boolean }
  | { readonly op: 'softmax' | 'logSoftmax'; readonly dim: number }
  /** Shape: x [.., D], weight [D] (, bias [D]) -> [.., D]. */
  | { readonly op: 'layerNorm' | 'rmsNorm'; readonly eps: number }
  /** Shape: indices i32 N, weight [V, D] -> [N.., D]. */
  | { readonly op: 'embedding' }
  /** Shape: logits [N.., V], targets i32 [N..] -> [N..]. */
  | {
      readonly op: 'crossEntropy';
      readonly ignoreIndex: number;
      readonly labelSmoothing: number;
    };
