import {
  checkOptions,
  ConfigError,
  describeValue,
  formatShape,
  option,
  type OptionRules,
  type Shape,
  type SizeSymbol,
} from '@shardwise/core/extend';
import type { SampleInput } from './sample.ts';

/** A size that a run of the file may choose, and the sizes for which the file is made. */
export interface NamedAxis {
  readonly name: string;
  /** The smallest size for which the model is checked to compute in the same way. Default: 2. */
  readonly min?: number;
  /**
   * The largest such size. With a larger one, a run of the file fails. Default: the model is checked up to 65,536, and
   * a run may have any size.
   */
  readonly max?: number;
}

/** A size that a run of the file may choose: its name, or the name and limits. */
export type DynamicAxis = string | NamedAxis;

const axisRules: OptionRules<NamedAxis> = {
  name: option.required(option.nonEmptyText),
  min: option.integer(1),
  max: option.integer(1),
};

/** For each input, its dims of any size. Dims of one name have the same size. */
export type DynamicAxes = Readonly<Record<string, Readonly<Record<number, DynamicAxis>>>>;

/** A size that a run of the file may choose. */
export interface SizeAxis {
  readonly name: string;
  /** The dims that have this size. */
  readonly places: readonly { readonly input: number; readonly dim: number }[];
  /** The size in the sample. */
  readonly seen: number;
  readonly min: number;
  readonly max: number;
  /** Whether a run with a larger size than `max` fails. */
  readonly isLimited: boolean;
  /** Whether `max` is the number of positions in a config, of which a model may use some for itself. */
  readonly isOfConfig: boolean;
}

/** Up to this size, the model is checked to compute in the same way if nothing says how large a size may be. */
const ANY_SIZE = 2 ** 16;

/**
 * Reads `dynamicAxes`. Without it, dim 0 of all inputs is `batch`, and dim 1 of inputs that are not floats is
 * `sequence`, of at most `positions`. Throws ConfigError for inputs and dims that the sample does not have, and if dims of one name differ in the sample.
 */
export function sizeAxes(
  inputs: readonly SampleInput[],
  dynamicAxes: DynamicAxes | undefined,
  positions: number | undefined,
): readonly SizeAxis[] {
  const axes = new Map<string, SizeAxis>();
  const isOfConfig = dynamicAxes === undefined && positions !== undefined;
  for (const [name, dims] of Object.entries(dynamicAxes ?? usualAxes(inputs, positions))) {
    const input = inputs.findIndex((each) => each.name === name);
    if (input < 0 || typeof dims !== 'object' || dims === null) {
      throw noSuchDim(describeValue(dims), name, inputs);
    }
    const shape = inputs[input]?.tensor.shape ?? [];
    for (const [key, given] of Object.entries(dims)) {
      const dim = Number(key);
      const axis: NamedAxis = typeof given === 'string' ? { name: given } : given;
      checkOptions(`dynamicAxes of ${name}`, axis, axisRules);
      const seen = shape[dim];
      if (seen === undefined) throw noSuchDim(key, name, inputs);
      const known = axes.get(axis.name);
      if (known !== undefined && known.seen !== seen) throw unequal(axis.name, known.seen, seen);
      const { min = known?.min ?? 2, max = known?.max ?? Math.max(ANY_SIZE, seen) } = axis;
      const isLimited = axis.max !== undefined || (known?.isLimited ?? false);
      if (max < min) {
        throw new ConfigError(
          {
            asked: `an ONNX file for ${axis.name} from ${min} to ${max}`,
            found: `the sample has ${seen}`,
            todo: 'Let min be at most max',
          },
          { axis: axis.name, min, max },
        );
      }
      const places = [...(known?.places ?? []), { input, dim }];
      axes.set(axis.name, { name: axis.name, places, seen, min, max, isLimited, isOfConfig });
    }
  }
  return [...axes.values()];
}

/** The symbol by whose sizes a program is looked at. One row is repeated where many are not, so it is not looked at. */
export function symbolOf({ seen, max }: SizeAxis): SizeSymbol {
  return { seen: Math.max(seen, 2), max, spacing: 1 };
}

/** The shape of an input where the axes have these sizes. */
export function shapeAt(
  shape: Shape,
  input: number,
  axes: readonly SizeAxis[],
  sizes: readonly number[],
): Shape {
  const result = [...shape];
  for (const [index, { places }] of axes.entries()) {
    for (const place of places) {
      if (place.input === input) result[place.dim] = sizes[index] ?? 0;
    }
  }
  return result;
}

function usualAxes(inputs: readonly SampleInput[], positions: number | undefined): DynamicAxes {
  const sequence = {
    name: 'sequence',
    ...(positions === undefined ? {} : { max: positions }),
  };
  const axesOf = ({ shape, dtype }: SampleInput['tensor']): Record<number, DynamicAxis> => {
    if (shape.length === 0) return {};
    const isOfTokens = shape.length > 1 && !dtype.startsWith('f') && dtype !== 'bf16';
    return isOfTokens ? { 0: 'batch', 1: sequence } : { 0: 'batch' };
  };
  return Object.fromEntries(inputs.map(({ name, tensor }) => [name, axesOf(tensor)]));
}

function noSuchDim(dim: string, name: string, inputs: readonly SampleInput[]): ConfigError {
  const found = inputs.map((each) => `${each.name} ${formatShape(each.tensor.shape)}`).join(', ');
  return new ConfigError(
    {
      asked: `dynamicAxes with ${dim} of ${name}`,
      found: `the inputs ${found}`,
      todo: 'Give an object of dims for inputs that the sample has, such as { 0: "batch" }',
    },
    { input: name, dim },
  );
}

function unequal(axis: string, first: number, second: number): ConfigError {
  return new ConfigError(
    {
      asked: `dims of one size ${axis}`,
      found: `sizes ${first} and ${second} in the sample`,
      todo: 'Give dims of different sizes different names in dynamicAxes, or another sample',
    },
    { axis, sizes: [first, second] },
  );
}
