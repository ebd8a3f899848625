import { currentScope } from '../ambient.ts';
import { kindOf } from '../base/dtype-kind.ts';
import { requireDTypeName } from '../dtype-name.ts';
import { cast, equal, offset, scale } from '../graph/ops/elementwise.ts';
import { iota } from '../graph/ops/leaf.ts';
import { composed, withoutValues } from '../realize/pending/small-values.ts';
import { formatShape } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import type { DType } from '../spec/dtype.ts';
import { ConfigError, ShapeError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireTensors } from './check-arguments.ts';
import { fromData } from './create.ts';
import { encodeNumbers } from './host-data.ts';
import { Tensor } from './tensor.ts';

interface Range {
  readonly start: number;
  readonly end: number;
  readonly step: number;
}

const rangeRules: OptionRules<Range> = {
  start: option.required(finite()),
  end: option.required(finite()),
  step: option.required(finite()),
};
const linspaceRules: OptionRules<{ start: number; end: number; steps: number }> = {
  start: option.required(option.number),
  end: option.required(option.number),
  steps: option.required(option.count),
};
const eyeRules: OptionRules<{ rows: number; columns: number }> = {
  rows: option.required(option.count),
  columns: option.required(option.count),
};

/** Options of `meshgrid`. */
export interface MeshgridOptions {
  /**
   * Whether the first tensor varies along dim 0 (`ij`, the default) or along dim 1, as the columns of an image
   * (`xy`).
   */
  readonly indexing?: 'ij' | 'xy';
}

const meshgridRules: OptionRules<MeshgridOptions> = { indexing: option.oneOf('ij', 'xy') };

/** The numbers 0, 1, … below end: i32, or f32 if end is not a whole number. Shape: -> [⌈end⌉]. */
export function arange(end: number): Tensor;
/**
 * The numbers start, start + step, … before end. Unless a dtype is given, they are i32 if start, end and step are whole
 * numbers, and else f32. Throws ConfigError for a step that does not lead to the end.
 * Shape: -> [⌈(end - start) / step⌉].
 */
export function arange(start: number, end: number, step?: number, dtype?: DType): Tensor;
export function arange(first: number, second?: number, step = 1, dtype?: DType): Tensor {
  const range =
    second === undefined ? { start: 0, end: first, step } : { start: first, end: second, step };
  checkOptions('arange', range, rangeRules);
  const { start, end } = range;
  const isWhole = [start, end, step].every(Number.isInteger);
  const type = dtype ?? (isWhole ? 'i32' : 'f32');
  requireDTypeName('arange', type);
  const length = Math.ceil((end - start) / step);
  if (step === 0 || length < 0) throw wrongWay(range);
  if (isWhole && type === 'i32') {
    // Any step or program can compute a range again.
    return withoutValues(() => {
      const places = start === 0 ? currentScope().sequencePart?.places(length) : null;
      const counted = places ?? iota([length], 0);
      const scaled = step === 1 ? counted : scale(counted, step);
      return new Tensor(start === 0 ? scaled : offset(scaled, start));
    });
  }
  return numbersOf(
    Array.from({ length }, (_, i) => start + i * step),
    type,
  );
}

/** The numbers 0, 1, … below length, which count something else than the tokens of a sequence. Shape: -> i32 [length]. */
export function indices(length: number): Tensor {
  return withoutValues(() => new Tensor(iota([length], 0)));
}

/** The given number of values at equal distances, including both ends. Shape: -> [steps]. */
export function linspace(start: number, end: number, steps: number, dtype: DType = 'f32'): Tensor {
  checkOptions('linspace', { start, end, steps }, linspaceRules);
  requireDTypeName('linspace', dtype);
  const step = steps < 2 ? 0 : (end - start) / (steps - 1);
  // Each half is computed from its own end, so that both ends are exact.
  const at = (i: number): number =>
    i < Math.floor(steps / 2) || steps === 1 ? start + step * i : end - step * (steps - 1 - i);
  return numbersOf(
    Array.from({ length: steps }, (_, i) => at(i)),
    dtype,
  );
}

/** Ones on the diagonal, zeros elsewhere. Shape: -> [rows, columns]. */
export function eye(rows: number, columns: number = rows, dtype: DType = 'f32'): Tensor {
  checkOptions('eye', { rows, columns }, eyeRules);
  requireDTypeName('eye', dtype);
  const shape = [rows, columns];
  return new Tensor(cast(equal(iota(shape, 0), iota(shape, 1)), dtype));
}

/** The coordinates of a grid: tensor i of the result varies along dim i only. Shape: [A], [B] -> each [A, B]. */
export function meshgrid(tensors: readonly Tensor[], options: MeshgridOptions = {}): Tensor[] {
  requireTensors('meshgrid', Object.fromEntries(tensors.entries()));
  checkOptions('meshgrid', options, meshgridRules);
  const odd = tensors.find(({ ndim }) => ndim > 1);
  if (odd !== undefined) {
    throw new ShapeError(
      {
        asked: `meshgrid of ${tensors.length} tensors`,
        found: `one of shape ${formatShape(odd.shape)}`,
        todo: 'Give vectors',
      },
      { shape: odd.shape },
    );
  }
  const shape = tensors.map(({ numel }) => numel);
  const isSwapped = options.indexing === 'xy' && tensors.length > 1;
  return tensors.map((x, i) =>
    composed(() => {
      const own = shape.map((size, dim) => (dim === i ? size : 1));
      const grid = x.reshape(own).expand(shape);
      return isSwapped ? grid.transpose(0, 1) : grid;
    }),
  );
}

function numbersOf(numbers: readonly number[], dtype: DType): Tensor {
  const known = kindOf(dtype) === 'float' ? 'f32' : 'i32';
  const whole = known === 'i32' ? numbers.map(Math.trunc) : numbers;
  const values = fromData(encodeNumbers(whole, known), [numbers.length], known);
  return values.to(dtype);
}

function finite(): typeof option.number {
  return {
    fits: (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value),
    expected: 'a finite number',
  };
}

function wrongWay({ start, end, step }: Range): ConfigError {
  return new ConfigError(
    {
      asked: `arange from ${start} to ${end} by ${step}`,
      found: step === 0 ? 'a step of 0' : 'a step that leads away from the end',
      todo: 'Use a step of the other sign, or swap start and end',
    },
    { start, end, step },
  );
}
