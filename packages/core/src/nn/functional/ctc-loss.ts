import { gather } from '../../graph/ops/index-ops.ts';
import { CallSite } from '../../graph/call-site.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError, describeValue } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { concat, fromData, full, stack } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { lossRules, type LossOptions } from './losses.ts';
import { widened } from './widened.ts';

/** Options of `ctcLoss`. */
export interface CtcLossOptions extends LossOptions {
  /** The class that stands for no label. Default: 0. */
  readonly blank?: number;
  /** Whether sequences that are too short for their labels have a loss of 0 instead of infinity. Default: false. */
  readonly zeroInfinity?: boolean;
}

export const ctcRules: OptionRules<CtcLossOptions> = {
  ...lossRules,
  blank: option.count,
  zeroInfinity: option.flag,
};

const operation = 'ctcLoss';

/** Stands for the logarithm of 0. It is finite, so that differences of it are not NaN. */
const IMPOSSIBLE = -1e30;

/**
 * Connectionist temporal classification (Graves et al. 2006), as torch.nn.functional.ctc_loss: the negative
 * logarithm of the probability of all alignments of the labels, computed from the log-probabilities that
 * `logSoftmax()` gives. For the mean, each loss is first divided by its number of labels. Labels beyond the
 * length of a row are ignored. If a label is not a class, the run rejects with IndexError. A sequence that is
 * too short for its labels has a loss of infinity and no gradient. The graph grows with T.
 * Shape: logProbabilities [T, N, C], targets i32 [N, S], inputLengths N numbers from 1 to T, targetLengths N
 * numbers from 0 to S -> [], or [N] for reduction 'none'. Throws ShapeError, DTypeError and ConfigError.
 */
export function ctcLoss(
  logProbabilities: Tensor,
  targets: Tensor,
  inputLengths: ArrayLike<number>,
  targetLengths: ArrayLike<number>,
  options: CtcLossOptions = {},
): Tensor {
  checkOptions(operation, options, ctcRules);
  const { blank = 0, zeroInfinity = false, reduction = 'mean' } = options;
  requireShape({ operation, name: 'logProbabilities', value: logProbabilities }, ['T', 'N', 'C']);
  const [steps = 0, batch = 0, classes = 0] = logProbabilities.shape;
  requireShape({ operation, name: 'targets', value: targets }, [['sequences', batch], 'S']);
  requireIndexDType(operation, targets);
  const labels = sizeAt(targets.shape, 1);
  const inputs = checkedLengths('inputLengths', inputLengths, { batch, least: 1, most: steps });
  const lengths = checkedLengths('targetLengths', targetLengths, {
    batch,
    least: 0,
    most: labels,
  });
  if (blank >= classes) throw noBlank(blank, classes);
  const { dtype } = widened(logProbabilities);
  return composed(() => {
    const score = alignmentScore(logProbabilities.to('f32'), targets, { inputs, lengths, blank });
    const isImpossible = score.lt(IMPOSSIBLE / 10);
    const losses = isImpossible.where(zeroInfinity ? 0 : Infinity, score.neg());
    const typed = losses.to(dtype);
    if (reduction === 'none') return typed;
    if (reduction === 'sum') return typed.sum();
    const divisors = Float32Array.from(lengths, (length) => Math.max(1, length));
    return losses
      .div(fromData(divisors, [batch], 'f32'))
      .mean()
      .to(dtype);
  });
}

interface Alignment {
  readonly inputs: Int32Array<ArrayBuffer>;
  readonly lengths: Int32Array<ArrayBuffer>;
  readonly blank: number;
}

/**
 * The logarithm of the sum over all alignments, by the forward recursion. A state is a label, or a blank beside one.
 * Shape: [T, N, C], [N, S] -> [N].
 */
function alignmentScore(
  logProbabilities: Tensor,
  targets: Tensor,
  { inputs, lengths, blank }: Alignment,
): Tensor {
  const [steps = 0, batch = 0] = logProbabilities.shape;
  const labels = sizeAt(targets.shape, 1);
  const column = (values: Int32Array<ArrayBuffer>): Tensor => fromData(values, [batch, 1], 'i32');
  const position = fromData(
    Int32Array.from({ length: labels }, (_, i) => i),
    [1, labels],
    'i32',
  );
  const known = position.lt(column(lengths)).where(targets, blank);
  const blanks = full([batch, labels], blank, 'i32');
  const pairs = stack([blanks, known], 2).reshape([batch, 2 * labels]);
  const states = concat([pairs, full([batch, 1], blank, 'i32')], 1);
  const count = 2 * labels + 1;
  // A label may directly follow a different one, without a blank between them.
  const before = states.pad([0, 2], [0, 0], blank).slice(1, 0, count);
  const maySkip = states.ne(blank).logicalAnd(states.ne(before));
  const index = states.unsqueeze(0).expand([steps, batch, count]);
  const bounded = logProbabilities.maximum(IMPOSSIBLE);
  const emitted = new Tensor(gather(bounded.node, 2, index.node, new CallSite(operation)));
  const inputColumn = column(inputs);
  const first = fromData(
    Float32Array.from({ length: count }, (_, state) => (state < 2 ? 0 : IMPOSSIBLE)),
    [1, count],
    'f32',
  );
  let score = emitted.select(0, 0).add(first);
  for (let step = 1; step < steps; step++) {
    const shifted = (by: number): Tensor =>
      score.pad([0, by], [0, 0], IMPOSSIBLE).slice(1, 0, count);
    const next = logAddExp([score, shifted(1), maySkip.where(shifted(2), IMPOSSIBLE)]);
    score = inputColumn.gt(step).where(next.add(emitted.select(0, step)), score);
  }
  const end = column(lengths.map((length) => 2 * length));
  const lastBlank = score.gather(1, end);
  const lastLabel = score.gather(1, end.sub(1).maximum(0));
  const ends = [lastBlank, end.gt(0).where(lastLabel, IMPOSSIBLE)];
  return logAddExp(ends).reshape([batch]);
}

/** log(sum(exp(values))), without overflow. Shape: each N -> N. */
function logAddExp(values: readonly Tensor[]): Tensor {
  const largest = values.reduce((max, value) => max.maximum(value)).detach();
  const terms = values.map((value) => value.sub(largest).exp());
  return terms
    .reduce((sum, term) => sum.add(term))
    .log()
    .add(largest);
}

function checkedLengths(
  name: string,
  list: ArrayLike<number>,
  { batch, least, most }: { readonly batch: number; readonly least: number; readonly most: number },
): Int32Array<ArrayBuffer> {
  const given: unknown = list;
  const isList = Array.isArray(given) || ArrayBuffer.isView(given);
  const lengths = isList ? Array.from(list) : [];
  const fits = (length: number): boolean =>
    Number.isInteger(length) && length >= least && length <= most;
  if (isList && lengths.length === batch && lengths.every(fits)) return Int32Array.from(lengths);
  const wrong = lengths.find((length) => !fits(length));
  throw new ConfigError(
    {
      asked: `${operation} with ${name} of ${isList ? `${lengths.length} sequences` : describeValue(given)}`,
      found:
        !isList || wrong === undefined
          ? `${batch} sequences of log-probabilities`
          : `a length of ${wrong}, of at most ${most}`,
      todo: `Give a list of ${batch} whole numbers from ${least} to ${most}`,
    },
    { [name]: lengths, batch, most },
  );
}

function noBlank(blank: number, classes: number): ConfigError {
  return new ConfigError(
    {
      asked: `${operation} with the blank ${blank}`,
      found: `${classes} classes`,
      todo: `Use a class from 0 to ${classes - 1}, and log-probabilities of the blank beside those of labels`,
    },
    { blank, classes },
  );
}
