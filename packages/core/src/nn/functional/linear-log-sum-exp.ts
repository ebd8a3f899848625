import type { Node } from '../../graph/node.ts';
import { currentEra, inEra, setEra } from '../../graph/create-node.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { sizeAt } from '../../base/shape.ts';
import { concat, stack } from '../../tensor/create.ts';
import { withOwnGradient } from '../../tensor/own-gradient.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { linear } from './linear.ts';
import { lowered } from './lowered.ts';
import { requireShape } from './require-shape.ts';
import { widened } from './widened.ts';

/** Options of `linearLogSumExp`. */
export interface LinearLogSumExpOptions {
  /**
   * The number of classes whose logits are computed at a time. Default: 8192 for up to 2048 rows, and for more rows a half of it, a
   * quarter, and so on, so that the logits of a tile take at most 64 MiB. It is never less than 128.
   */
  readonly tile?: number;
  /** Logits s are bounded by this number c, as c tanh(s / c) (Gemma 2). Default: they are not. */
  readonly softcap?: number;
  /** A number for each class, which is added to its logits. Shape: [V]. Default: none. */
  readonly bias?: Tensor;
}

export const tileRules: OptionRules<LinearLogSumExpOptions> = {
  tile: option.integer(1),
  softcap: option.positive,
  bias: option.instanceOf(Tensor),
};

/** The most classes of a tile, and the fewest, with which a product still has whole panels of columns. */
const MOST_CLASSES = 8192;
const FEWEST_CLASSES = 128;
/** The most bytes of the logits of a tile, in f32. */
const LOGITS_BYTES = 64 * 1024 * 1024;

/**
 * The number of classes of a tile for so many rows. It is a power of two, so that batches whose lengths vary have programs of few
 * structures. With the fewest classes, the logits of a tile take about as much as x.
 */
function classesOfTile(rows: number): number {
  const fitting = LOGITS_BYTES / (Float32Array.BYTES_PER_ELEMENT * Math.max(1, rows));
  return Math.min(MOST_CLASSES, Math.max(FEWEST_CLASSES, 2 ** Math.floor(Math.log2(fitting))));
}

/**
 * The logarithm of the sum of the exponentials of logits x Wᵀ + bias, and the logit of one class of each row, by tiles of
 * classes. The chosen logit of a class outside of W is 0. Ranks with parts of W combine their results. Of all tiles together, only
 * numbers of rows are kept: the backward pass computes the logits of a tile again, and adds its gradient of x to that of the tiles
 * before. Shape: x [N.., C], weight [V, C], classes i32 [M] for M rows in all -> both f32 [M].
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
  const rows = sizeAt(classes.shape, 0);
  const { tile = classesOfTile(rows), softcap = null, bias } = options;
  if (bias !== undefined) {
    requireShape({ operation, name: 'bias', value: bias }, [['classes', count]]);
  }
  const input = lowered(x.reshape([rows, width]));
  const tiles = Array.from({ length: Math.ceil(count / tile) }, (_, index) => ({
    start: index * tile,
    stop: Math.min((index + 1) * tile, count),
  }));
  const node = withOwnGradient(
    [input.node, weight.node, classes.node, ...(bias ? [bias.node] : [])],
    () => overTiles({ input, weight, classes, bias, softcap }, tiles).node,
    (gradient, own, result) => {
      const [ofInput, ofWeight, ofClasses, ofBias] = own.map((each) => new Tensor(each));
      if (ofInput === undefined || ofWeight === undefined || ofClasses === undefined) return [];
      const head = { input: ofInput, weight: ofWeight, classes: ofClasses, bias: ofBias, softcap };
      return gradientsOverTiles(head, tiles, new Tensor(result), new Tensor(gradient));
    },
  );
  const results = new Tensor(node);
  return { logSumExp: results.select(0, 0), chosen: results.select(0, 1) };
}

/** What logits are made of, of all classes or of those of a tile. Shape: input [M, C], weight [V, C], classes i32 [M], bias [V]. */
interface Head {
  readonly input: Tensor;
  readonly weight: Tensor;
  /** The class of each row, from the first class of the weight on. */
  readonly classes: Tensor;
  readonly bias: Tensor | undefined;
  readonly softcap: number | null;
}

/** Some classes: those from `start` up to, but not including, `stop`. */
interface Tile {
  readonly start: number;
  readonly stop: number;
}

function headOfTile(
  { weight, classes, bias, ...others }: Head,
  { start, stop }: Tile,
  lower: (x: Tensor) => Tensor,
): Head {
  const part = (each: Tensor): Tensor => lower(each.slice(0, start, stop));
  return { ...others, weight: part(weight), bias: bias && part(bias), classes: classes.sub(start) };
}

/** The sum of the exponentials of logits so far, as the product of `sum` and the exponential of `largest`. Shape: [M]. */
interface Sums {
  readonly largest: Tensor;
  /** Null: 1. */
  readonly sum: Tensor | null;
  /** The logit of the class of each row, or 0 if no tile so far has it. */
  readonly chosen: Tensor;
}

/** The logarithms of the sums, and the chosen logits. Shape: -> f32 [2, M]. */
function overTiles(head: Head, tiles: readonly Tile[]): Tensor {
  const era = currentEra() + 1;
  const all = tiles.reduce<Sums | null>(
    (before, tile, index) =>
      inEra(era + index, () => withTile(before, headOfTile(head, tile, lowered))),
    null,
  );
  if (all === null) throw new RangeError('no classes');
  const { largest, sum, chosen } = all;
  return stack([sum === null ? largest : largest.add(sum.log()), chosen]);
}

/** Less than any logit. The exponential of minus infinity beside it is 0. */
const LEAST = -3e38;

function withTile(before: Sums | null, head: Head): Sums {
  const logits = logitsOf(head);
  const { isOwn, row } = rowsOf(head);
  const chosen = isOwn.where(logits.gather(1, row.unsqueeze(1)).squeeze(1), 0);
  const own = logits.logSumExp(1);
  if (before === null) return { largest: own, sum: null, chosen };
  const largest = before.largest.maximum(own).maximum(LEAST);
  const scale = before.largest.sub(largest).exp();
  const sum = before.sum === null ? scale : before.sum.mul(scale);
  return {
    largest,
    sum: sum.add(own.sub(largest).exp()),
    chosen: before.chosen.add(chosen),
  };
}

/**
 * The gradients of the input, the weight, the classes and the bias. `results` and `gradient` are those of `overTiles`.
 * Each tile is computed by itself, after the one before, and so is what reads the concatenations of gradients: so the tiles are
 * computed where they lie in these.
 */
function gradientsOverTiles(
  head: Head,
  tiles: readonly Tile[],
  results: Tensor,
  gradient: Tensor,
): readonly (Node | null)[] {
  const { dtype } = head.input;
  let ofInput: Tensor | null = null;
  const ofWeight: Tensor[] = [];
  const ofBias: Tensor[] = [];
  // Logits of the eras of the forward pass would be the same values, and kept.
  laterEra(tiles.length + 1);
  for (const tile of tiles) {
    laterEra(1);
    const own = headOfTile(head, tile, (part) => part.to(dtype));
    const [ofSum, ofChosen] = gradient.unbind(0);
    const [sum, chosen] = results.unbind(0);
    if (!ofSum || !ofChosen || !sum || !chosen) return [];
    const { softcap } = head;
    const logits = logitsOf(own);
    const shares = logits.sub(sum.unsqueeze(1)).exp().mul(ofSum.unsqueeze(1));
    const slopes = shares.mul(slopeOfBound(logits, softcap)).to(dtype);
    // The chosen logits are products of few rows, which are added to those of all logits.
    const { isOwn, row } = rowsOf(own);
    const factor = isOwn.where(ofChosen.mul(slopeOfBound(chosen, softcap)), 0);
    const column = factor.to(dtype).unsqueeze(1);
    const ofTile = slopes.matmul(own.weight).add(own.weight.indexSelect(0, row).mul(column));
    ofInput = ofInput === null ? ofTile : ofInput.add(ofTile);
    ofWeight.push(
      slopes
        .matmul(own.input, { transposeA: true })
        .indexAdd(0, row, own.input.mul(column))
        .to(head.weight.dtype),
    );
    if (head.bias === undefined) continue;
    const ofOffsets = slopes.to('f32').sum(0).indexAdd(0, row, factor);
    ofBias.push(ofOffsets.to(head.bias.dtype));
  }
  laterEra(1);
  return [
    ofInput?.node ?? null,
    concat(ofWeight).node,
    null,
    ...(ofBias.length > 0 ? [concat(ofBias).node] : []),
  ];
}

/**
 * Begins another era, so many after this one. What is built from then on is computed after what was built before, and is not merged with equal
 * expressions of other eras, whose values would have to be kept.
 */
function laterEra(by: number): void {
  setEra(currentEra() + by);
}

/** Whether a tile has the class of each row, and the row of its weight: that of the class, or 0. Shape: each [M]. */
function rowsOf({ classes, weight }: Head): { readonly isOwn: Tensor; readonly row: Tensor } {
  const isOwn = classes.ge(0).logicalAnd(classes.lt(sizeAt(weight.shape, 0)));
  return { isOwn, row: isOwn.where(classes, 0) };
}

/** Shape: -> f32 [M, V]. */
function logitsOf({ input, weight, bias, softcap }: Head): Tensor {
  const logits = widened(linear(input, weight, bias)).to('f32');
  return softcap === null ? logits : logits.div(softcap).tanh().mul(softcap);
}

/** The derivative of the bound at a bounded logit. Shape: N -> N, or 1. */
function slopeOfBound(logits: Tensor, softcap: number | null): Tensor | number {
  return softcap === null ? 1 : logits.div(softcap).square().neg().add(1);
}
