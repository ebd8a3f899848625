import { currentEra, inEra, setEra } from '../../graph/create-node.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { elementCount, sizeAt } from '../../base/shape.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { stack } from '../../tensor/create.ts';
import { indicesInRange } from '../../tensor/indices-in-range.ts';
import { joinGradients } from '../../tensor/join-gradients.ts';
import { withOwnGradient } from '../../tensor/own-gradient.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { linear } from './linear.ts';
import { lowered } from './lowered.ts';
import { type Reduction, reductionRule } from './reduction.ts';
import { requireShape } from './require-shape.ts';
import { widened } from './widened.ts';

/** Options of `linearLogSumExp`. */
interface LinearLogSumExpOptions {
  /** The number of classes whose logits are computed at a time. Default: 8192. */
  readonly tile?: number;
  /** Logits s are bounded by this number c, as c tanh(s / c) (Gemma 2). Default: they are not. */
  readonly softcap?: number;
  /** A number for each class, which is added to its logits. Shape: [V]. Default: none. */
  readonly bias?: Tensor;
}

/** Options of `linearCrossEntropy`. */
export interface LinearCrossEntropyOptions extends LinearLogSumExpOptions {
  /** How losses are combined. Default: the mean over the targets that are not ignored. */
  readonly reduction?: Reduction;
  /** Targets of this value do not count. Default: -100. */
  readonly ignoreIndex?: number;
}

const tileRules: OptionRules<LinearLogSumExpOptions> = {
  tile: option.integer(1),
  softcap: option.positive,
  bias: option.instanceOf(Tensor),
};

const lossRules: OptionRules<LinearCrossEntropyOptions> = {
  ...tileRules,
  reduction: reductionRule,
  ignoreIndex: option.integer(-(2 ** 31)),
};

/** The classes of a tile that a logit is computed for at a time. */
const TILE = 8192;

/**
 * The cross-entropy of logits x Wᵀ + bias, which are never there as a whole: forward and backward pass each compute them for
 * one tile of classes after the other (Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models"). Use it
 * instead of linear() and crossEntropy() for a large vocabulary. The backward pass computes the product once more. At its
 * peak it has the logits of a tile and their gradient, and the gradient of W, into which the gradients of the tiles are
 * computed.
 * Shape: x [N.., C], weight [V, C], targets i32 [N..] -> [], or [N..] for reduction 'none'. Throws ShapeError,
 * DTypeError and ConfigError. If a target is not a class, the run rejects with IndexError.
 */
export function linearCrossEntropy(
  x: Tensor,
  weight: Tensor,
  targets: Tensor,
  options: LinearCrossEntropyOptions = {},
): Tensor {
  const operation = 'linearCrossEntropy';
  checkOptions(operation, options, lossRules);
  requireTensors(operation, { x, weight, targets });
  requireIndexDType(operation, targets);
  const { reduction = 'mean', ignoreIndex = -100, ...tiles } = options;
  return composed(() => {
    const rows = elementCount(targets.shape);
    const flat = targets.reshape([rows]);
    const ignored = flat.eq(ignoreIndex);
    const classes = indicesInRange(ignored.where(0, flat), sizeAt(weight.shape, 0), operation);
    const { logSumExp, chosen } = linearLogSumExp(x, weight, classes, tiles);
    const losses = ignored.where(0, logSumExp.sub(chosen));
    if (reduction === 'none') return losses.reshape(targets.shape);
    if (reduction === 'sum') return losses.sum();
    return losses.sum().div(ignored.logicalNot().sum());
  });
}

/**
 * The logarithm of the sum of the exponentials of logits x Wᵀ + bias, and the logit of one class of each row, by tiles of
 * classes. The chosen logit of a class outside of W is 0. Ranks with parts of W combine their results.
 * Shape: x [N.., C], weight [V, C], classes i32 [M] for M rows in all -> both f32 [M].
 */
export function linearLogSumExp(
  x: Tensor,
  weight: Tensor,
  classes: Tensor,
  options: LinearLogSumExpOptions = {},
): { readonly logSumExp: Tensor; readonly chosen: Tensor } {
  const operation = 'linearLogSumExp';
  checkOptions(operation, options, tileRules);
  requireShape({ operation, name: 'weight', value: weight }, ['V', 'C']);
  const [count = 0, width = 0] = weight.shape;
  requireShape({ operation, name: 'x', value: x }, ['..', ['features', width]]);
  const { tile = TILE, softcap = null, bias } = options;
  if (bias !== undefined) {
    requireShape({ operation, name: 'bias', value: bias }, [['classes', count]]);
  }
  const rows = sizeAt(classes.shape, 0);
  let input = lowered(x.reshape([rows, width]));
  // The gradient of this copy is one concatenation of the tiles, also if the weight has other uses. What reads it is
  // computed later than the last tile, so that the tiles can be computed where they lie in it.
  const table = joinGradients(weight, () => laterEra(1));
  const offsets = bias && joinGradients(bias);
  const results: Tensor[] = [];
  const tiles = Math.ceil(count / tile);
  for (let start = 0; start < count; start += tile) {
    const stop = Math.min(start + tile, count);
    // The gradients of x are added one by one, because each tile reads the copy of x that the one before it read.
    input = joinGradients(input);
    const part = (each: Tensor): Tensor => lowered(each.slice(0, start, stop));
    const own = { weight: part(table), bias: offsets && part(offsets) };
    const place = classes.sub(start);
    const era = currentEra() + 1 + results.length;
    results.push(inEra(era, () => tileOf(input, own, place, { softcap, tiles })));
  }
  const all = stack(results);
  return { logSumExp: all.select(1, 0).logSumExp(0), chosen: all.select(1, 1).sum(0) };
}

/** The weights of a tile's classes, and what is added to their logits. Shape: weight [v, C], bias [v]. */
interface TileWeights {
  readonly weight: Tensor;
  readonly bias: Tensor | undefined;
}

/**
 * The log of the sum of the exponentials of a tile's logits, and the logit of the class if the tile has it, or else 0.
 * Shape: x [M, C], classes i32 [M], from the start of the tile -> f32 [2, M].
 */
function tileOf(
  x: Tensor,
  part: TileWeights,
  classes: Tensor,
  { softcap, tiles }: { readonly softcap: number | null; readonly tiles: number },
): Tensor {
  const value = (): Tensor => {
    const logits = bounded(logitsOf(x, part), softcap);
    const { isOwn, row } = rowsOf(classes, part.weight);
    const chosen = logits.gather(1, row.unsqueeze(1)).squeeze(1);
    return stack([logits.logSumExp(1), isOwn.where(chosen, 0)]);
  };
  const node = withOwnGradient(
    [x.node, part.weight.node, classes.node, ...(part.bias ? [part.bias.node] : [])],
    () => value().node,
    (gradient, own, result) => {
      const [input, weight, chosen, bias] = own.map((each) => new Tensor(each));
      if (input === undefined || weight === undefined || chosen === undefined) return [];
      laterEra(tiles + 1);
      const [ofSum, ofChosen] = new Tensor(gradient).unbind(0);
      const [sum, logit] = new Tensor(result).unbind(0);
      if (!ofSum || !ofChosen || !sum || !logit) return [];
      const logits = bounded(logitsOf(input, { weight, bias }), softcap);
      const shares = logits.sub(sum.unsqueeze(1)).exp().mul(ofSum.unsqueeze(1));
      const slopes = shares.mul(slopeOfBound(logits, softcap)).to(input.dtype);
      // The chosen logits are products of few rows, which are added to those of all logits.
      const { isOwn, row } = rowsOf(chosen, weight);
      const factor = isOwn.where(ofChosen.mul(slopeOfBound(logit, softcap)), 0);
      const column = factor.to(input.dtype).unsqueeze(1);
      const ofInput = slopes.matmul(weight).add(weight.indexSelect(0, row).mul(column));
      const ofWeight = slopes.matmul(input, { transposeA: true });
      return [
        ofInput.node,
        ofWeight.indexAdd(0, row, input.mul(column)).node,
        null,
        ...(bias ? [slopes.to('f32').sum(0).indexAdd(0, row, factor).to(bias.dtype).node] : []),
      ];
    },
  );
  return new Tensor(node);
}

/**
 * Begins another era, so many after this one. What is built from then on is computed after what was built before, and is
 * not merged with equal expressions of other eras, whose values would have to be kept.
 */
function laterEra(by: number): void {
  setEra(currentEra() + by);
}

/** Whether a tile has the class of each row, and the row of its weight: that of the class, or 0. Shape: each [M]. */
function rowsOf(classes: Tensor, part: Tensor): { readonly isOwn: Tensor; readonly row: Tensor } {
  const isOwn = classes.ge(0).logicalAnd(classes.lt(sizeAt(part.shape, 0)));
  return { isOwn, row: isOwn.where(classes, 0) };
}

/** Shape: x [M, C] -> f32 [M, v]. */
function logitsOf(x: Tensor, { weight, bias }: TileWeights): Tensor {
  return widened(linear(x, weight, bias)).to('f32');
}

function bounded(logits: Tensor, softcap: number | null): Tensor {
  return softcap === null ? logits : logits.div(softcap).tanh().mul(softcap);
}

/** The derivative of the bound at a bounded logit. Shape: N -> N, or 1. */
function slopeOfBound(logits: Tensor, softcap: number | null): Tensor | number {
  return softcap === null ? 1 : logits.div(softcap).square().neg().add(1);
}
