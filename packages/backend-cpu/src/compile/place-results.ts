import type { HeadPlaces } from '../attention/attention-work.ts';
import { permutedView, wholeView } from '../wasm/move/view.ts';
import { readersOf } from './readers-of.ts';
import type { Rewriter } from './rewriter.ts';
import { inputAt, sameShape, type Segment, type Step, type StepMap, valueAt } from './step.ts';

type Permute = StepMap['permute'];

/** The sum of dy y of each query: what the backward pass reads of the result of attention. */
interface Delta {
  readonly sum: StepMap['sum'];
  /** dy in the layout of the permuted result. */
  readonly gradient: number;
  /** Steps that nothing else reads, by the ids of what they make. */
  readonly dropped: readonly number[];
}

/**
 * Where a program permutes the result of an attention, attention writes it so, and it is not copied. Sums of dy y, which the backward
 * pass needs, are made of the permuted values: their terms and the order of these are the same, and only the sums are permuted.
 */
export function placeResults(
  steps: readonly Step[],
  { outputs, updates }: Pick<Segment, 'outputs' | 'updates'>,
  rewriter: Rewriter,
): readonly Step[] {
  const attention = steps.filter((step) => step.op === 'attention');
  if (attention.length === 0) return steps;
  const given = new Set([...outputs, ...updates.map(({ value }) => value)]);
  const readers = readersOf(steps);
  const onlyReader = (id: number): Step | undefined => {
    const [reader, ...others] = readers.get(id) ?? [];
    return others.length > 0 || given.has(id) ? undefined : reader;
  };
  const replaced = new Map<number, readonly Step[]>();
  for (const step of attention) {
    const own = given.has(step.output) ? [] : (readers.get(step.output) ?? []);
    const [permute, ...others] = own.filter((reader) => reader.op === 'permute');
    if (permute === undefined || others.length > 0 || !keepsRows(permute.params.order)) continue;
    const rest = own.filter(({ op }) => op !== 'permute' && op !== 'attentionLogSumExp');
    const deltas = rest.map((reader) => deltaOf(reader, step.output, permute));
    if (!deltas.every((delta) => delta !== undefined)) continue;
    const params = { ...step.params, places: placesIn(permute) };
    const { shape, output } = permute;
    replaced.set(step.output, [{ ...step, params, shape, output }]);
    replaced.set(output, []);
    for (const logSums of own) {
      if (logSums.op !== 'attentionLogSumExp') continue;
      const inputs = logSums.inputs.map((id) => (id === step.output ? output : id));
      replaced.set(logSums.output, [{ ...logSums, inputs }]);
    }
    for (const { sum, gradient, dropped } of deltas) {
      for (const id of dropped) replaced.set(id, []);
      replaced.set(sum.output, sumsOf(permute, gradient, sum, rewriter));
    }
  }
  return steps.flatMap((step) => replaced.get(step.output) ?? [step]);

  /** Undefined where `reader` does anything else with the result of an attention. */
  function deltaOf(reader: Step, result: number, permute: Permute): Delta | undefined {
    const isWide = reader.op === 'cast' && reader.dtype === 'f32';
    const product = isWide ? onlyReader(reader.output) : reader;
    if (product?.op !== 'mul' || product.dtype !== 'f32') return undefined;
    const own = isWide ? reader.output : result;
    const factor = product.inputs.find((id) => id !== own);
    const sum = onlyReader(product.output);
    if (factor === undefined || sum?.op !== 'sum') return undefined;
    const last = product.shape.length - 1;
    if (!sameShape(sum.params.dims, [last]) || sum.shape.length !== last) return undefined;
    const maker = rewriter.producer(factor);
    const moved = maker?.op === 'cast' ? rewriter.producer(inputAt(maker, 0)) : maker;
    if (moved?.op !== 'permute' || (maker !== moved && maker?.dtype !== 'f32')) return undefined;
    const back = permute.params.order.map((dim) => moved.params.order[dim]);
    if (!back.every((dim, at) => dim === at)) return undefined;
    const isDropped = maker !== moved && onlyReader(factor) === product;
    return {
      sum,
      gradient: inputAt(moved, 0),
      dropped: [product.output, ...(isWide ? [own] : []), ...(isDropped ? [factor] : [])],
    };
  }
}

/** Whether a permute leaves rows of heads in one piece each. */
function keepsRows(order: readonly number[]): boolean {
  return order.at(-1) === order.length - 1;
}

function inverse(order: readonly number[]): readonly number[] {
  return order.map((_, dim) => order.indexOf(dim));
}

/** Where heads lie in a permuted result. */
function placesIn({ params: { order }, shape }: Permute): HeadPlaces {
  const { elementOffset, dims } = permutedView(wholeView(shape), inverse(order));
  const [item, head, row] = dims;
  return {
    elementOffset,
    itemStride: item?.stride ?? 0,
    headStride: head?.stride ?? 0,
    rowStride: row?.stride ?? 0,
  };
}

/** Sums of the products of a permuted result with what lies like it, and their permute to what they were before. */
function sumsOf(
  { params: { order }, shape, output: result }: Permute,
  gradient: number,
  sum: StepMap['sum'],
  rewriter: Rewriter,
): readonly Step[] {
  const made: number[] = [];
  const add = (make: (output: number) => Step): number => {
    const id = rewriter.append(make);
    made.push(id);
    return id;
  };
  const wide = (id: number): number =>
    valueAt(rewriter.values, id).dtype === 'f32'
      ? id
      : add((output) => ({
          op: 'cast',
          params: { dtype: 'f32' },
          inputs: [id],
          shape,
          dtype: 'f32',
          output,
        }));
  const inputs = [wide(gradient), wide(result)];
  const product = add((output) => ({
    op: 'mul',
    params: {},
    inputs,
    shape,
    dtype: 'f32',
    output,
  }));
  const sums = add((output) => ({
    ...sum,
    inputs: [product],
    shape: shape.slice(0, -1),
    output,
  }));
  const back: Step = {
    op: 'permute',
    params: { order: inverse(order).slice(0, -1) },
    inputs: [sums],
    shape: sum.shape,
    dtype: 'f32',
    output: sum.output,
  };
  return [...made.flatMap((id) => rewriter.producer(id) ?? []), back];
}
